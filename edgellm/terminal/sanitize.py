"""Makes untrusted text safe for a terminal: no control characters, and none whose width terminals disagree about."""

import re

_COMBINING = "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_FORMAT = (
    "\u00ad\u034f\u061c\u115f\u180b-\u180f\u200b\u200d-\u200f\u202a-\u202e\u2060-\u206f"  # hidden marks, directions
    "\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U0001f3fb-\U0001f3ff\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f"
_UNPRINTABLE = "\x80-\x9f\ud800-\udfff\ufffe\uffff"
_BIDI = "\u202a-\u202e\u2066-\u2069"
_HARMFUL = re.compile(f"[{_FORMAT}{_CONTROLS}{_UNPRINTABLE}\u2028\u2029]|[{_COMBINING}]{{4}}")
_CONTROL_OR_BIDI = re.compile(f"[{_CONTROLS}\x80-\x9f{_BIDI}]")
_INVISIBLE = re.compile(f"[{_FORMAT}]+|\r(?=\n)")
_EXCESS_MARKS = re.compile(f"([{_COMBINING}]{{3}})[{_COMBINING}]+")
_REPLACEMENTS = (
    {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"}
    | {0x7F: "\u2421", 0x2028: " ", 0x2029: " "}
    | dict.fromkeys((*range(0x80, 0xA0), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "\ufffd")
)


def sanitize(text: str) -> str:
    """Text with symbols in place of control characters (U+241B for ESC), and without invisible characters.

    Characters that change the direction of the text or the width of their neighbours (joiners, variation selectors,
    skin tones) are removed, because terminals disagree about them, and a line of unexpected width breaks the screen. A
    character keeps at most three combining marks. Tabs and line feeds stay.
    """
    if _HARMFUL.search(text) is None:
        return text
    return _EXCESS_MARKS.sub(r"\1", _INVISIBLE.sub("", text)).translate(_REPLACEMENTS)


def sanitize_for_file(text: str) -> str:
    """Text for a file that may be shown on a terminal.

    Symbols replace control characters, and characters that change the direction of the text are removed. Joiners,
    combining marks and other parts of words and emoji stay.
    """
    return _CONTROL_OR_BIDI.sub(lambda found: _REPLACEMENTS.get(ord(found[0]), ""), text.replace("\r\n", "\n"))


def escape_json(document: str) -> str:
    """An equal JSON document, with escapes for the characters that `sanitize_for_file` replaces."""
    return _CONTROL_OR_BIDI.sub(lambda found: f"\\u{ord(found[0]):04x}", document)
