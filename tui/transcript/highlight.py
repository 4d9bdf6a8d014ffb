"""Syntax highlighting by Pygments, and where a long code block is split."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.style import Style

from tui.transcript.lines import Span
from tui.transcript.styles import TranscriptStyles

if TYPE_CHECKING:
    from pygments.lexer import Lexer

Tokens = list[tuple[tuple[str, ...], str]]
"""Token types of Pygments, such as ("Name", "Function"), with their texts."""

CHUNK = 32
"""Lines of code that are highlighted together: the limit bounds the cost of a growing code block."""

_MAX_CHARS = 20_000  # characters of a chunk; some lexers take a time that grows with its square
_STYLES = {
    ("Keyword",): "keyword",
    ("Keyword", "Type"): "type",
    ("Operator", "Word"): "keyword",
    ("Name", "Builtin"): "type",
    ("Name", "Class"): "type",
    ("Name", "Exception"): "type",
    ("Name", "Function"): "name",
    ("Name", "Decorator"): "name",
    ("Name", "Tag"): "keyword",
    ("Name", "Attribute"): "name",
    ("Literal", "String"): "string",
    ("Literal", "Number"): "number",
    ("Comment",): "comment",
    ("Generic", "Inserted"): "added",
    ("Generic", "Deleted"): "removed",
    ("Generic", "Heading"): "keyword",
    ("Generic", "Subheading"): "type",
    ("Generic", "Prompt"): "comment",
}


def highlight(code: str, language: str, styles: TranscriptStyles) -> list[Span]:
    """The code as styled spans; unstyled if the language is unknown."""
    return [(text, styles.code + _style(kind, styles)) for kind, text in _tokens(code, language)]


def cut(lines: Sequence[str], language: str) -> int:
    """The number of lines after which to split: the last one in their second half where no string or comment
    continues, if possible before a line that is not indented."""
    free = _line_ends(_tokens("\n".join(lines) + "\n", language))
    half = [at for at in range(len(lines) // 2, len(lines)) if at in free]
    outer = [at for at in half if lines[at][:1].strip() and lines[at][0] not in "})]<"]
    return (outer or half or [len(lines)])[-1]


def _line_ends(tokens: Tokens) -> set[int]:
    """The numbers, from 1, of lines that do not end inside a string or comment."""
    ends, line = set(), 0
    for kind, text in tokens:
        for _ in range(text.count("\n")):
            line += 1
            if kind[:1] != ("Literal",) and kind[:2] != ("Comment", "Multiline"):
                ends.add(line)
    return ends


def _tokens(code: str, language: str) -> Tokens:
    lexer = _lexer(language) if len(code) <= _MAX_CHARS else None
    if lexer is None:
        return [((), code)]
    try:
        tokens = [(tuple(kind), text) for kind, text in lexer.get_tokens(code)]
    except Exception:  # one of 500 lexers may fail on odd text, which is then shown unstyled
        return [((), code)]
    return tokens if "".join(text for _, text in tokens) == code else [((), code)]


def _style(kind: tuple[str, ...], styles: TranscriptStyles) -> Style:
    name = _STYLES.get(kind[:2]) or _STYLES.get(kind[:1])
    return getattr(styles, name) if name else Style.null()


@functools.lru_cache(64)
def _lexer(language: str) -> "Lexer | None":
    from pygments.lexers import get_lexer_by_name

    if language.lower() not in _languages():  # without plugins of Pygments: looking for them searches all packages
        return None
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


@functools.cache
def _languages() -> frozenset[str]:
    from pygments.lexers import get_all_lexers

    return frozenset(alias for _, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases)
