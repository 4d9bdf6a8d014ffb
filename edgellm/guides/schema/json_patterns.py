"""Regular expressions of texts as guided replies write them in JSON."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

from edgellm.guides.patterns.charset import CharSet
from edgellm.guides.patterns.nodes import Node
from edgellm.guides.patterns.text import NOTHING, rust_class, write
from edgellm.guides.schema.json_text import LONG_ESCAPES, SHORT_ESCAPES

_ESCAPED = CharSet.of(*((code, code) for code in (*SHORT_ESCAPES, *LONG_ESCAPES)))


def in_json(node: Node) -> str:
    """An expression for the texts of a tree, between the quotes of JSON."""
    return write(node, _characters)


@lru_cache(1024)
def _characters(chars: CharSet) -> str:
    plain, escaped = chars - _ESCAPED, chars & _ESCAPED
    parts = [rust_class(plain)] if plain.ranges else []
    codes = [code for low, high in escaped.ranges for code in range(low, high + 1)]
    short = "".join(SHORT_ESCAPES[code] for code in codes if code in SHORT_ESCAPES)
    if codes:
        letters = [f"[{re.escape(short)}]"] if short else []
        parts.append(rf"(?:\\(?:{'|'.join([*letters, *_long_escapes(codes)])}))")
    return f"(?:{'|'.join(parts)})" if len(parts) > 1 else parts[0] if parts else NOTHING


def _long_escapes(codes: list[int]) -> Iterator[str]:
    """Expressions for the characters of `codes` that are written as \\u00XX, without the backslash."""
    digits = (f"{code:02x}" for code in codes if code not in SHORT_ESCAPES)
    for first, group in groupby(digits, lambda pair: pair[0]):
        yield f"u00{first}[{''.join(pair[1] for pair in group)}]"
