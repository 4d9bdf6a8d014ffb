"""Cleaning text from the clipboard or a file before it goes into the box."""

import re

# Characters of the longest text that can be edited without delay: 40 ms per key press if it is a single line.
EDITABLE = 50_000

_LONG_LINES, _LONG_CHARACTERS = 20, 2_000

_LINE_END = re.compile("\r\n?|[\v\f\x85\u2028\u2029]")

# ECMA-48: control sequences, then control strings (OSC, DCS, ...), two-character escapes, then lone control characters.
_HARMFUL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0e-\x1f\x7f-\x9f]"
)


def harmless(text: str) -> str:
    """The text with "\\n" as line end, without escape sequences, and without control characters except tabs."""
    return _HARMFUL.sub("", _LINE_END.sub("\n", text))


def is_long(text: str) -> bool:
    """Whether a pasted text would fill the box, and is attached instead."""
    return len(text) > _LONG_CHARACTERS or text.count("\n") >= _LONG_LINES
