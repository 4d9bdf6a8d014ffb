"""Markdown to the tokens of markdown-it, which is loaded when there is some to parse."""

import functools
from typing import TYPE_CHECKING

from tui.transcript.maths import add_maths

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

Links = tuple[tuple[str, str], ...]
"""Definitions of link references: the label as markdown-it normalizes it, and the address."""

_DEEPEST = 60  # levels of nesting, two of them for a list in a list; what is deeper than the parser's limit it drops
_LONGEST = 16_384  # characters in one block; some patterns of them take markdown-it seconds, growing with the square
_MOST_BRACKETS = 400


def parse_blocks(source: str) -> tuple[list["Token"], Links]:
    """Tokens of the blocks alone, what is in a line still unparsed, and the references defined in them."""
    environment: dict[str, dict[str, dict[str, str]]] = {}
    tokens: list[Token] = []
    parser = _parser()
    parser.block.parse(source, parser, environment, tokens)
    found = environment.get("references", {})
    return tokens, tuple((label, link["href"]) for label, link in found.items())


def parse(source: str, links: Links) -> list["Token"] | None:
    """All tokens of some blocks; None for a text that nobody wrote by hand, which is shown as it is."""
    tokens, _ = parse_blocks(source)
    inline = [token for token in tokens if token.type == "inline"]
    if any(token.level >= _DEEPEST for token in tokens) or any(_endless(token.content) for token in inline):
        return None
    environment = {"references": {label: {"href": href, "title": ""} for label, href in links}}
    parser = _parser()
    for token in inline:
        token.children = []
        parser.inline.parse(token.content, parser, environment, token.children)
    return tokens


def _endless(content: str) -> bool:
    return len(content) > _LONGEST or content.count("[") > _MOST_BRACKETS


@functools.cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": _DEEPEST + 4})
    add_maths(parser)
    return parser.enable(["table", "strikethrough"]).disable(["html_block", "html_inline"])
