"""Whole replies, token by token: thoughts in channels, calls and text together."""

from pathlib import Path

import pytest

from edgellm.text.detokenizer import IncrementalDetokenizer
from edgellm.text.reply_format import THOUGHT_CHANNEL
from edgellm.text.tokenizer import Tokenizer
from edgellm.tools.calls import Event, ToolCall
from edgellm.tools.reply import ReplyCalls
from support.call_styles import (
    BY_NAME,
    ODD,
    ODD_CALLS,
    ROME,
    TOOLS,
    TWO_CALLS,
    WITH_TEXT,
    calls_in,
    merged,
    pieces_of,
    text_in,
)
from support.tiny_vocab import write_bpe

CHANNELS = ("<|channel>", "<channel|>")


def tokenizer_with(folder: Path, marks: tuple[str, ...]) -> Tokenizer:
    merges = ["t h", "th e", "e r", "n a", "na m", "nam e", ': "', '{ "', "} }", "c i", "ci t", "cit y"]
    return Tokenizer.open(write_bpe(folder / "v.gguf", merges, dict.fromkeys(marks, 3)))


def read_tokens(tokenizer: Tokenizer, name: str, reply: str, begun: str = "") -> list[Event]:
    """The events of a reply, of which each token comes alone."""
    form = BY_NAME[name]
    thoughts = None
    if name == "gemma4":
        ids = tokenizer.special_ids(CHANNELS)
        thoughts = THOUGHT_CHANNEL.reader({token: text for text, token in ids.items()}, begun)
    known = tokenizer.special_ids(form.marks)
    calls = ReplyCalls(form.reader(TOOLS, known, begun), {token: text for text, token in known.items()}, thoughts)
    detokenizer, found = IncrementalDetokenizer(tokenizer), list[Event]()
    for token in tokenizer.encode(reply, parse_special=True):
        if mark := calls.marks.get(token):
            found += [*calls.text(detokenizer.flush()), *calls.mark(mark)]
        else:
            found += calls.text(detokenizer.push(token))
    return merged([*found, *calls.text(detokenizer.flush()), *calls.flush()])


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_replies_cut_at_every_token(name: str, tmp_path: Path) -> None:
    tokenizer = tokenizer_with(tmp_path, (*BY_NAME[name].marks, *CHANNELS))
    events = read_tokens(tokenizer, name, TWO_CALLS[name])
    assert calls_in(events) == [("weather", ROME), ("clock", {})]
    assert ("Let me see." in text_in(events)) == (name in WITH_TEXT)
    assert read_tokens(tokenizer, name, ODD_CALLS[name]) == [ToolCall("call00000", "weather", ODD)]


def test_a_thought_in_a_channel_precedes_a_call(tmp_path: Path) -> None:
    tokenizer = tokenizer_with(tmp_path, (*BY_NAME["gemma4"].marks, *CHANNELS))
    call = ODD_CALLS["gemma4"]
    thought = "<|channel>thought\nI could write call:clock{}.<channel|>"
    events = read_tokens(tokenizer, "gemma4", thought + call)
    assert text_in(events) == "<think>\nI could write call:clock{}.\n</think>" and calls_in(events) == [
        ("weather", ODD)
    ]
    events = read_tokens(tokenizer, "gemma4", thought + "Well." + call)
    assert text_in(events) == "<think>\nI could write call:clock{}.\n</think>\n\nWell." and calls_in(events)


def test_a_call_in_an_open_channel_ends_the_thought(tmp_path: Path) -> None:
    tokenizer = tokenizer_with(tmp_path, (*BY_NAME["gemma4"].marks, *CHANNELS))
    events = read_tokens(tokenizer, "gemma4", "<|channel>thought\nI need it." + ODD_CALLS["gemma4"])
    assert text_in(events).startswith("<think>\nI need it.\n</think>") and calls_in(events) == [("weather", ODD)]
    empty = read_tokens(tokenizer, "gemma4", "<|channel>thought\n" + ODD_CALLS["gemma4"])
    assert empty == [ToolCall("call00000", "weather", ODD)]


def test_channels_inside_of_arguments_are_their_text(tmp_path: Path) -> None:
    tokenizer = tokenizer_with(tmp_path, (*BY_NAME["gemma4"].marks, *CHANNELS))
    reply = '<|tool_call>call:weather{city:<|"|><|channel>thought\nx<channel|><|"|>}<tool_call|>'
    assert calls_in(read_tokens(tokenizer, "gemma4", reply)) == [
        ("weather", {"city": "<|channel>thought\nx<channel|>"})
    ]


def test_a_continued_reply_keeps_its_state() -> None:
    form = BY_NAME["hermes"]
    call = ODD_CALLS["hermes"]
    for begun, said in (
        ("<think>\nSo", "ok\n</think>\n\n"),
        ("Let me ", "ok "),
        ("<think>\nSo\n</think>\n\nLet me ", "ok "),
    ):
        reader = form.reader(TOOLS, form.marks, begun)
        events = [event for piece in pieces_of(form, said + call, form.marks) for event in reader.push(piece)]
        assert merged([*events, *reader.flush()]) == [said.rstrip(), ToolCall("call00000", "weather", ODD)]
    reader = form.reader(TOOLS, (), "a <tool_")
    assert merged([*reader.push("call> b"), *reader.flush()]) == ["call> b"]
    bare = BY_NAME["llama3"]
    reader = bare.reader(TOOLS, (), "Here: ")
    assert merged([*reader.push('{"name": "clock", "parameters": {}}'), *reader.flush()]) == [
        '{"name": "clock", "parameters": {}}'
    ]


def test_calls_are_numbered_on_from_those_of_the_conversation() -> None:
    reader = BY_NAME["hermes"].reader(TOOLS, (), first=7)
    assert [event.id for event in reader.push(TWO_CALLS["hermes"]) if isinstance(event, ToolCall)] == [
        "call00007",
        "call00008",
    ]
