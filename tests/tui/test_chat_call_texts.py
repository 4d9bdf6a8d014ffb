"""Calls as text for the user: nothing that a call has is invisible, whatever the model wrote."""

import sys
from unicodedata import category

import pytest

from support.chat_tools import call
from tui.core.call_texts import command_line, details

SEEN = "a b-é中ก็"
BLANK = (
    "\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u2000\u200b\u200d"
    "\u2028\u202e\u2066\u2800\u3000\u3164\ufe0f\ufeff\uffa0"
)


@pytest.mark.parametrize("character", [*BLANK, "\x1b", "\x7f", "\x9b", "\ud800", "\U000e0041", "\U000e01ef"])
def test_characters_that_show_nothing_are_escapes(character: str) -> None:
    for shown in (command_line(["rm", f"x{character}y"]), details(call("rm", path=f"x{character}y"))):
        assert character not in shown
        assert f"x{ascii(character)[1:-1]}y" in shown.replace("\\u001b", "\\x1b").replace("\\u007f", "\\x7f")


def test_what_can_be_seen_stays() -> None:
    assert command_line(["echo", SEEN]) == f'echo "{SEEN}"'
    assert SEEN in details(call("echo", text=SEEN))


def test_marks_beyond_what_a_terminal_shows_are_escapes() -> None:
    assert command_line(["e" + "\u0301" * 40]) == '"e' + "\\u0301" * 40 + '"'


def test_no_character_of_any_category_without_a_form_is_left() -> None:
    hidden = [c for c in map(chr, range(sys.maxunicode + 1)) if category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert not set(hidden) & set(details(call("x", text="".join(hidden)))) - {"\n"}
