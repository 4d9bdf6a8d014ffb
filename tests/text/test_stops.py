"""Stop strings against a search in the whole text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.text.stops import StopStrings

PIECES = st.lists(st.text("ab", max_size=4), max_size=12)
STRINGS = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4)


def cut(pieces: list[str], strings: list[str]) -> tuple[str, bool]:
    """What should come through: all before the first stop string that a piece completes."""
    text = ""
    for piece in pieces:
        text += piece
        found = [text.find(string) for string in strings if string in text]
        if found:
            return text[: min(found)], True
    return text, False


@given(PIECES, STRINGS)
def test_text_comes_through_up_to_the_first_stop_string(pieces: list[str], strings: list[str]) -> None:
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
    """What is held is the beginning of a stop string, the longest that the text ends with."""
    stops, text, passed = StopStrings(strings), "", ""
    for piece in pieces:
        text, passed = text + piece, passed + stops.push(piece)
        if stops.found:
            return
        held = text.removeprefix(passed)
        starts = {string[:n] for string in strings for n in range(len(string))}
        assert held == max((start for start in starts if text.endswith(start)), key=len)


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
