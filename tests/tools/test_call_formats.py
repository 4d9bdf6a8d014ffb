"""Calls in the style of each family of models: the same calls however a reply is cut."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm.tools.calls import BrokenCall, Event, ToolCall
from edgellm.tools.formats import FORMATS
from support.call_styles import (
    BY_NAME,
    ODD,
    ODD_CALLS,
    ROME,
    TOOLS,
    TWO_CALLS,
    WITH_TEXT,
    Piece,
    calls_in,
    characters,
    pieces_of,
    read,
    text_in,
)

NAMES = sorted(BY_NAME)


def readings(name: str, reply: str) -> list[list[Event]]:
    """A reply read whole and cut at every character, with its marks as tokens and as text, and cut in two anywhere."""
    form = BY_NAME[name]
    found = list[list[Event]]()
    for tokens in (form.marks, ()):
        pieces = pieces_of(form, reply, tokens)
        cut = characters(pieces)
        found += [read(form, each, tokens) for each in (pieces, cut)]
    found += [read(form, [reply[:place], reply[place:]]) for place in range(len(reply))]
    return found


def test_every_format_has_replies() -> None:
    assert set(TWO_CALLS) == set(ODD_CALLS) == set(BY_NAME) and len(BY_NAME) == len(FORMATS)


@pytest.mark.parametrize("name", NAMES)
def test_two_calls_behind_text(name: str) -> None:
    for events in readings(name, TWO_CALLS[name]):
        assert calls_in(events) == [("weather", ROME), ("clock", {})]
        said = text_in(events)
        if name in WITH_TEXT:
            assert said == ("<think>\nLet me see.\n</think>" if name == "harmony" else "Let me see.")
        else:
            assert said == ""
        assert [event.id for event in events if isinstance(event, ToolCall)] == ["call00000", "call00001"]


@pytest.mark.parametrize("name", NAMES)
def test_odd_characters_nested_values_and_other_types(name: str) -> None:
    for events in readings(name, ODD_CALLS[name]):
        assert events == [ToolCall("call00000", "weather", ODD)]


@pytest.mark.parametrize("name", sorted(WITH_TEXT - {"harmony"}))
def test_text_comes_as_soon_as_it_is_certain(name: str) -> None:
    form, reply = BY_NAME[name], TWO_CALLS[name]
    reader, said = form.reader(TOOLS, form.marks), ""
    end = reply.index("Let me see.") + len("Let me see.")
    for character in reply[:end]:
        said += text_in(reader.push(character))
    assert said == "Let me see." and not reader.in_call


@pytest.mark.parametrize("name", NAMES)
def test_a_call_comes_when_it_ends(name: str) -> None:
    """The values of the last argument are complete before, and only marks and brackets come after."""
    form, reply = BY_NAME[name], ODD_CALLS[name]
    last = max(reply.find(end) + len(end) for end in ("1.5, null]", "1.5, None]", "1.5,null]", '"}]"]'))
    reader = form.reader(TOOLS, form.marks)
    begun = pieces_of(form, reply[:last], form.marks)
    assert not [event for piece in begun for event in reader.push(piece)] and reader.in_call
    rest = [event for piece in pieces_of(form, reply[last:], form.marks) for event in reader.push(piece)]
    assert calls_in([*rest, *reader.flush()]) == [("weather", ODD)] and not reader.in_call


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(-1e9, 1e9) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_", min_size=1, max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
texts = st.text(max_size=20) | st.sampled_from(
    ['"', "'", "</tool_call>", "\\", "\n", "{", "}", "]", "<|call|>", ">>>clock\n"]
)
arguments = st.fixed_dictionaries(
    {"city": texts},
    optional={
        "days": st.integers(),
        "exact": st.booleans(),
        "tags": st.lists(texts, max_size=3),
        "more": st.dictionaries(st.text("abc_", min_size=1, max_size=4), values, max_size=3),
    },
)


def scrubbed(value: Any) -> Any:
    """A value whose texts UTF-8 can encode."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    return {key: scrubbed(item) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("name", NAMES)
@given(given_calls=st.lists(arguments, min_size=1, max_size=3), data=st.data())
@settings(deadline=None, max_examples=60)
def test_what_is_written_is_read_however_it_is_cut(
    name: str, given_calls: list[dict[str, Any]], data: st.DataObject
) -> None:
    form = BY_NAME[name]
    expected = [ToolCall(f"call{number:05}", "weather", scrubbed(each)) for number, each in enumerate(given_calls)]
    parts = form.write(expected)
    whole = [BY_NAME[name] and (piece_of(text, mark)) for text, mark in parts]
    cuts = data.draw(st.lists(st.integers(1, 9), max_size=20))
    assert read(form, whole, form.marks) == expected
    assert read(form, cut(whole, cuts), form.marks) == expected


def piece_of(text: str, mark: bool) -> Piece:
    from edgellm.tools.symbols import Mark

    return Mark(text) if mark else text


def cut(pieces: Sequence[Piece], sizes: Sequence[int]) -> list[Piece]:
    """The pieces, with text cut into parts of some sizes in turn."""
    made, turn = list[Piece](), 0
    for piece in pieces:
        while isinstance(piece, str) and piece:
            size = sizes[turn % len(sizes)] if sizes else len(piece)
            made.append(piece[:size])
            piece, turn = piece[size:], turn + 1
        if not isinstance(piece, str):
            made.append(piece)
    return made


FRAGMENTS = [
    *(
        "weather",
        "clock",
        "rm",
        "\n",
        " ",
        '{"name": "',
        '", "arguments": {',
        '{"city": "',
        '"',
        "}",
        "]",
        "[",
        ",",
        "(",
        ")",
    ),
    *(
        "<think>",
        "</think>",
        "<parameter=city>\n",
        "\n</parameter>\n",
        "</function>\n",
        "<function=",
        ">",
        ">>>",
        "all\n",
    ),
    *(
        "call:",
        "{",
        "Hi",
        "city",
        "=",
        "'",
        "\\",
        "to=functions.",
        "commentary ",
        "```json\n",
        "```",
        ";",
        "null",
        "é",
        "name",
    ),
]


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(deadline=None, max_examples=120)
def test_any_pieces_give_the_same_events_and_nothing_is_swallowed(name: str, data: st.DataObject) -> None:
    form = BY_NAME[name]
    pieces = data.draw(st.lists(st.sampled_from([*FRAGMENTS, *form.marks, *form.marks]), max_size=16))
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    for tokens in (form.marks, ()):
        reply = pieces_of(form, "".join(pieces), tokens)
        events = read(form, reply, tokens)
        assert read(form, characters(reply), tokens) == events
        assert read(form, cut(reply, sizes), tokens) == events
        if not calls_in(events) and name not in ("harmony", "functionary"):
            told = "".join(event.text if isinstance(event, BrokenCall) else event for event in events if event)  # type: ignore[union-attr]
            assert squeezed(told) == squeezed("".join(pieces))


def squeezed(text: str) -> str:
    """A text without white space, and without the end of a thought that a call ended."""
    return "".join(text.replace("\n</think>\n\n", "").split())
