"""Parsing Markdown into tokens of markdown-it, which is imported on first use."""

import functools
from typing import TYPE_CHECKING

from tui.transcript.maths import add_maths

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

Links = tuple[tuple[str, str], ...]
"""Definitions of link references: markdown-it's normalized label, and the address."""

_MAX_NESTING = 60  # levels of nesting, two per list; markdown-it drops text nested deeper than its limit
_MAX_BLOCK_CHARS = 16_384
"""The longest block that is parsed: some patterns take markdown-it quadratic time, seconds for longer blocks."""

_MAX_BRACKETS = 400


def parse_blocks(source: str) -> tuple[list["Token"], Links]:
    """Block tokens, with inline content unparsed, and the link references defined in them."""
    environment: dict[str, dict[str, dict[str, str]]] = {}
    tokens: list[Token] = []
    parser = _parser()
    parser.block.parse(source, parser, environment, tokens)
    found = environment.get("references", {})
    return tokens, tuple((label, link["href"]) for label, link in found.items())


def parse(source: str, links: Links) -> list["Token"] | None:
    """All tokens of some blocks; None for a text too long or too deeply nested to parse, which is shown as written."""
    tokens, _ = parse_blocks(source)
    inline = [token for token in tokens if token.type == "inline"]
    if any(token.level >= _MAX_NESTING for token in tokens) or any(_endless(token.content) for token in inline):
        return None
    environment = {"references": {label: {"href": href, "title": ""} for label, href in links}}
    parser = _parser()
    for token in inline:
        token.children = []
        parser.inline.parse(token.content, parser, environment, token.children)
    return tokens


def _endless(content: str) -> bool:
    return len(content) > _MAX_BLOCK_CHARS or content.count("[") > _MAX_BRACKETS


@functools.cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING + 4})
    add_maths(parser)
    return parser.enable(["table", "strikethrough"]).disable(["html_block", "html_inline"])
