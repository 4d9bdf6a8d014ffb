"""Patterns as regular expressions: of Python, and of how guided replies write the texts that match in JSON."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby

from edgellm.guides.schema.charset import CharSet
from edgellm.guides.schema.json_text import LONG_ESCAPES, SHORT_ESCAPES
from edgellm.guides.schema.pattern import Chars, Choice, Node, Repeat, Sequence

_ESCAPED = CharSet.of(*((code, code) for code in (*SHORT_ESCAPES, *LONG_ESCAPES)))


def in_json(node: Node) -> str:
    """An expression, as the Rust crate `regex` reads it, for the texts of `node`, between the quotes of JSON."""
    return _text(node, _json_characters)


@lru_cache(1024)
def _compiled(node: Node) -> re.Pattern[str]:
    return re.compile(_text(node, lambda chars: _class(chars, "\\U{:08x}") if chars.ranges else "(?!)"))


def matches(node: Node, text: str) -> bool:
    """Whether the whole text matches."""
    return _compiled(node).fullmatch(text) is not None


def _text(node: Node, characters: Callable[[CharSet], str]) -> str:
    if isinstance(node, Chars):
        return characters(node.chars)
    if isinstance(node, Sequence):
        return "".join(_text(item, characters) for item in node.items)
    if isinstance(node, Choice):
        return f"(?:{'|'.join(_text(item, characters) for item in node.items)})"
    assert isinstance(node, Repeat), "a whole pattern has no anchors"
    item = _text(node.item, characters)
    item = item if isinstance(node.item, Chars) else f"(?:{item})"
    if (node.least, node.most) in _SHORT:
        return item + _SHORT[node.least, node.most]
    return f"{item}{{{node.least},{'' if node.most is None else node.most}}}"


def _class(chars: CharSet, code: str) -> str:
    """A class of characters, at least one; `code` writes the code of one."""
    if len(chars.ranges) == 1 and chars.ranges[0][0] == chars.ranges[0][1] and chr(chars.ranges[0][0]).isalnum():
        return chr(chars.ranges[0][0])
    ranges = (code.format(low) + (f"-{code.format(high)}" if high > low else "") for low, high in chars.ranges)
    return f"[{''.join(ranges)}]"


@lru_cache(1024)
def _json_characters(chars: CharSet) -> str:
    """An expression for one character of a set, as JSON has it."""
    plain, escaped = chars - _ESCAPED, chars & _ESCAPED
    parts = [_class(plain, "\\x{{{:x}}}")] if plain.ranges else []
    codes = [code for low, high in escaped.ranges for code in range(low, high + 1)]
    short = "".join(SHORT_ESCAPES[code] for code in codes if code in SHORT_ESCAPES)
    if codes:
        letters = [f"[{re.escape(short)}]"] if short else []
        parts.append(rf"(?:\\(?:{'|'.join([*letters, *_long_escapes(codes)])}))")
    return f"(?:{'|'.join(parts)})" if len(parts) > 1 else parts[0] if parts else _NOTHING


def _long_escapes(codes: list[int]) -> Iterator[str]:
    """Expressions for the characters of `codes` that are written as \\u00XX, without the backslash."""
    for first, group in groupby(
        (f"{code:02x}" for code in codes if code not in SHORT_ESCAPES), lambda digits: digits[0]
    ):
        yield f"u00{first}[{''.join(digits[1] for digits in group)}]"


_SHORT = {(0, None): "*", (1, None): "+", (0, 1): "?"}

_NOTHING = "[a&&b]"
"""No character at all."""
