"""How guided replies write JSON: each string, number and key in one way, so that grammars can compare them as text.

    {"name": "Ann", "tags": ["a", "b"], "size": 1.5}

Between items stands `, `, behind a key `: `, as `json.dumps` of Python writes them; there is no other white space. So
a model cannot go on with white space for ever, and what must come next is known. Quotes, backslashes and the control
characters with a letter of their own (`\\n`) are written with a backslash, other control characters as `\\u00XX`, and
all others as they are.
"""

import json
from decimal import Decimal
from typing import Any

COMMA, COLON = ", ", ": "
SHORT_ESCAPES = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 0x22: '"', 0x5C: "\\"}
LONG_ESCAPES = tuple(code for code in (*range(32), 127) if code not in SHORT_ESCAPES)
"""Characters that are written as \\u00XX."""


def write_json(value: Any) -> str:
    """A value as a guided reply writes it. Numbers are written as they are in Python."""
    if isinstance(value, str):
        return '"' + "".join(map(_character, value)) + '"'
    if isinstance(value, list):
        return f"[{COMMA.join(map(write_json, value))}]"
    if isinstance(value, dict):
        return "{" + COMMA.join(f"{write_json(key)}{COLON}{write_json(item)}" for key, item in value.items()) + "}"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _character(character: str) -> str:
    code = ord(character)
    if code in SHORT_ESCAPES:
        return "\\" + SHORT_ESCAPES[code]
    return f"\\u{code:04x}" if code < 32 or code == 127 else character
