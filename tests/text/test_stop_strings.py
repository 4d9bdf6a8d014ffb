"""Stop strings against a search in the complete text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.generate.stop_strings import StopStrings

PIECES = st.lists(st.text("ab", max_size=4), max_size=12)
STRINGS = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4)


def cut(pieces: list[str], strings: list[str]) -> tuple[str, bool]:
    """The expected text: all before the first stop string that a piece completes."""
    text = ""
    for piece in pieces:
        text += piece
        found = [text.find(string) for string in strings if string in text]
        if found:
            return text[: min(found)], True
    return text, False


@given(PIECES, STRINGS)
def test_text_is_passed_on_up_to_the_first_stop_string(pieces: list[str], strings: list[str]) -> None:
    stops, passed = StopStrings(strings), ""
    for piece in pieces:
        passed += stops.push(piece)
        assert not any(string in passed for string in strings)
        if stops.found:
            break
    else:
        passed += stops.flush()
    assert (passed, stops.found) == cut(pieces, strings)


@given(PIECES, STRINGS)
def test_no_more_is_held_back_than_must_be(pieces: list[str], strings: list[str]) -> None:
    """The text held back is the longest beginning of a stop string that the text ends with."""
    stops, text, passed = StopStrings(strings), "", ""
    for piece in pieces:
        text, passed = text + piece, passed + stops.push(piece)
        if stops.found:
            return
        held = text.removeprefix(passed)
        starts = {string[:n] for string in strings for n in range(len(string))}
        assert held == max((start for start in starts if text.endswith(start)), key=len)


HIDDEN = {"<x>": 1, "<x>>": 2, "<y>": 3}
NAMES = {number: text for text, number in HIDDEN.items()}
MIXED = st.lists(st.one_of(st.text("ab", max_size=3), st.sampled_from([1, 2, 3])), max_size=10)
NAMING = st.lists(st.one_of(st.text("ab", min_size=1, max_size=2), st.sampled_from([*HIDDEN])), min_size=1, max_size=3)


def cut_hidden(pieces: list[str | int], strings: list[str]) -> tuple[str, bool]:
    """As `cut`, in the text with the tokens that a stop string names."""
    text: list[str] = []
    for piece in pieces:
        text += list(piece) if isinstance(piece, str) else [NAMES[piece]]
        starts = []
        for string in strings:
            letters = re.findall("<x>>|<.>|[ab]", string)
            places = [i for i, letter in enumerate(text) if letter in "ab" or letter in letters]
            seen, n = [text[i] for i in places], len(letters)
            starts += [places[i] for i in range(len(seen)) if seen[i : i + n] == letters][:1]
        if starts:
            return "".join(letter for letter in text[: min(starts)] if letter in "ab"), True
    return "".join(letter for letter in text if letter in "ab"), False


@given(MIXED, st.lists(NAMING.map("".join), min_size=1, max_size=3))
def test_hidden_tokens_are_found_where_a_string_names_them(pieces: list[str | int], strings: list[str]) -> None:
    stops, passed = StopStrings(strings, HIDDEN), ""
    for piece in pieces:
        passed += stops.push(piece) if isinstance(piece, str) else stops.push("", piece)
        if stops.found:
            break
    else:
        passed += stops.flush()
    assert (passed, stops.found) == cut_hidden(pieces, strings)


def test_a_hidden_token_without_a_text_hides_no_other() -> None:
    stops = StopStrings(["<x>"], {"": 9, **HIDDEN})
    assert stops.push("a", 9) + stops.push("", HIDDEN["<x>"]) == "a"
    assert stops.found


def test_letters_that_spell_a_hidden_token_are_found_as_well() -> None:
    stops = StopStrings(["<x>"], HIDDEN)
    assert stops.push("a <x") + stops.push("> b") == "a "
    assert stops.found


@pytest.mark.parametrize(
    ("strings", "pieces", "passed"),
    [
        (["stop"], ["one st", "op two"], "one "),
        (["\n\n"], ["a\n", "b\n", "\nc"], "a\nb"),
        (["aab"], ["aa", "aab"], "aa"),
        (["b", "abc"], ["x ab"], "x a"),
        (["abc", "bx"], ["ab", "x"], "a"),
        (["end"], ["end"], ""),
        ([], ["any", "thing"], "anything"),
    ],
)
def test_by_hand(strings: list[str], pieces: list[str], passed: str) -> None:
    stops = StopStrings(strings)
    assert "".join(stops.push(piece) for piece in pieces) == passed
    assert stops.found is bool(strings)
