"""Calls as text for the user: nothing that a call has is invisible, whatever the model wrote."""

import sys
from typing import Any
from unicodedata import category

import pytest

from edgellm.errors import OptionError
from edgellm.tools.tool import tool_of
from support.chat_tools import call
from tui.core.call_texts import command_line, details, summary, what_runs

SEEN = "a b-é中ก็"
BLANK = (
    "\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u2000\u200b\u200d"
    "\u2028\u202e\u2066\u2800\u3000\u3164\ufe0f\ufeff\uffa0"
)


@pytest.mark.parametrize(
    "character", [*BLANK, "\x1b", "\x7f", "\x9b", "\ud800", "\U000e0041", "\U000e01ef", "\U0001f3fd"]
)
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


def test_a_call_with_thousands_of_levels_is_shown_as_such_and_does_not_run() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = {"a": value}
    deep = call("echo", a=value)
    assert summary(deep) == "echo(a=too many levels of values inside each other)"
    assert details(deep) == "echo too many levels of values inside each other"
    tool = tool_of({"name": "echo", "parameters": {"type": "object"}})
    with pytest.raises(OptionError, match="tool echo: the arguments have too many levels"):
        what_runs(tool, deep)
