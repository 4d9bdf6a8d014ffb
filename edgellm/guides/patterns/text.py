"""Syntax trees as regular expressions, of Python and of the Rust crate `regex`, which llguidance reads."""

import re
from collections.abc import Callable
from functools import lru_cache

from edgellm.guides.patterns.charset import NO_CHARS, CharSet
from edgellm.guides.patterns.nodes import Alternation, Chars, Concatenation, Node, Repeat

_NOTHING = "[a&&b]"  # no character at all, in Rust
_SHORT = {(0, None): "*", (1, None): "+", (0, 1): "?"}


def rust(node: Node, without: CharSet = NO_CHARS) -> str:
    """An expression for the texts of a tree, which has no anchors; none has a character of `without`."""
    return _write(node, lambda chars: _rust_class(chars - without))


def matches(node: Node, text: str) -> bool:
    """Whether a tree, which has no anchors, matches the whole text."""
    return _compiled(node).fullmatch(text) is not None


def _write(node: Node, characters: Callable[[CharSet], str]) -> str:
    """An expression for a tree; `characters` writes one for a set of characters, to which `*` may be appended."""
    if isinstance(node, Chars):
        return characters(node.chars)
    if isinstance(node, Concatenation):
        return "".join(_write(item, characters) for item in node.items)
    if isinstance(node, Alternation):
        return f"(?:{'|'.join(_write(item, characters) for item in node.items)})"
    assert isinstance(node, Repeat), "anchors and names are worked out before"
    item = _write(node.item, characters)
    item = item if isinstance(node.item, Chars) else f"(?:{item})"
    if (node.least, node.most) in _SHORT:
        return item + _SHORT[node.least, node.most]
    return f"{item}{{{node.least},{'' if node.most is None else node.most}}}"


def _rust_class(chars: CharSet) -> str:
    """An expression for one of some characters."""
    return _class(chars, "\\x{{{:x}}}") if chars.ranges else _NOTHING


def _class(chars: CharSet, code: str) -> str:
    """A class of characters, at least one; `code` writes the code of one."""
    (low, high), *more = chars.ranges
    if low == high and not more and chr(low).isascii() and chr(low).isalnum():
        return chr(low)
    ranges = (code.format(low) + (f"-{code.format(high)}" if high > low else "") for low, high in chars.ranges)
    return f"[{''.join(ranges)}]"


@lru_cache(1024)
def _compiled(node: Node) -> re.Pattern[str]:
    return re.compile(_write(node, lambda chars: _class(chars, "\\U{:08x}") if chars.ranges else "(?!)"))
