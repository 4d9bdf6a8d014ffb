"""Inline Markdown: emphasis, code, links."""

import re
from typing import TYPE_CHECKING

from rich.style import Style

from edgellm.terminal.sanitize import sanitize
from tui.transcript.lines import Span
from tui.transcript.styles import TranscriptStyles

if TYPE_CHECKING:
    from markdown_it.token import Token

_EMPHASIS = {"em": Style(italic=True), "strong": Style(bold=True), "s": Style(strike=True)}
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:https?://|mailto:)[!-~]+")


def spans(children: list["Token"], styles: TranscriptStyles, base: Style) -> list[Span]:
    """The text of an inline token's children as spans, with their styles over `base`."""
    stack = [base]
    found: list[Span] = []
    for token in children:
        kind, _, end = token.type.rpartition("_")
        if end == "open":
            stack.append(stack[-1] + (_link(token, styles) if kind == "link" else _EMPHASIS[kind]))
        elif end == "close":
            stack.pop()
        else:
            found.append(_span(token, styles, stack[-1]))
    return found


def _span(token: "Token", styles: TranscriptStyles, style: Style) -> Span:
    if token.type == "code_inline":
        return sanitize(token.content).replace("\t", " "), style + styles.inline_code
    if token.type == "image":
        return f"[{sanitize(token.content) or 'image'}]", style + styles.link
    if token.type in ("softbreak", "hardbreak"):  # a model's line breaks are meant
        return "\n", style
    text = sanitize(token.content).replace("\t", " ")  # again: an entity such as &#x202e; is any character
    return (_BREAK.sub("\n", text) if "<" in text else text), style


def _link(token: "Token", styles: TranscriptStyles) -> Style:
    """The style of a link. Only web and mail addresses can be opened in the terminal."""
    href = str(token.attrs.get("href", ""))
    return styles.link + Style(link=href) if _ADDRESS.fullmatch(href) else styles.link
