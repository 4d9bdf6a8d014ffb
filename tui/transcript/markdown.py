"""Rendering Markdown tokens as lines."""

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style

from edgellm.terminal.sanitize import sanitize
from tui.transcript.code import code_label, code_lines, language_of
from tui.transcript.inline import spans
from tui.transcript.lines import BLANK, Line, Span, decoration, wrap
from tui.transcript.styles import TranscriptStyles
from tui.transcript.table import table_lines

if TYPE_CHECKING:
    from markdown_it.token import Token

_BULLETS = "•◦▪"
_TASKS = {"[ ] ": "☐", "[x] ": "☑", "[X] ": "☑"}
_MIN_WIDTH = 24  # cells: deeper nesting is not indented further


class Markdown:
    """Renders the tokens of markdown-it. `code_blocks_before` code blocks come before them in the message."""

    def __init__(self, styles: TranscriptStyles, code_blocks_before: int = 0) -> None:
        self._styles = styles
        self._codes = code_blocks_before

    def lines(self, tokens: list["Token"], width: int, style: Style, depth: int = 0) -> list[Line]:
        """Blocks one below the other, with a blank line between them except in a tight list."""
        lines: list[Line] = []
        at, tight = 0, True
        while at < len(tokens):
            token = tokens[at]
            end = _end(tokens, at)
            block = self._block(token, tokens[at + 1 : end], width, style, depth)
            if not (tight or token.hidden):
                lines.append(BLANK)
            lines += block
            tight = token.hidden
            at = max(end, at) + 1
        return lines

    def _block(self, token: "Token", inner: list["Token"], width: int, style: Style, depth: int) -> list[Line]:
        match token.type:
            case "heading_open":
                return self._heading(token.tag, inner, width, style)
            case "paragraph_open":
                return wrap(self._inline(inner[0], style), width)
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token, inner, width, style, depth)
            case "blockquote_open":
                bar = Segment("▎ ", self._styles.quote)
                lines = self.lines(inner, _narrower(width, 2), style + self._styles.quote, depth)
                return _behind(bar, bar, lines, width)
            case "fence" | "code_block":
                return self._code(token, width)
            case "table_open":
                return self._table(inner, width, style)
            case "hr":
                return [decoration(Segment("─" * width, self._styles.rule))]
        return wrap([(sanitize(token.content).expandtabs(4), style)], width)

    def _inline(self, token: "Token", style: Style) -> list[Span]:
        return spans(token.children or [], self._styles, style)

    def _heading(self, tag: str, inner: list["Token"], width: int, style: Style) -> list[Line]:
        own = {"h1": self._styles.title, "h2": self._styles.heading}.get(tag, self._styles.subheading)
        lines = wrap(self._inline(inner[0], style + own), width)
        if tag == "h1":
            under = max(sum(segment.cell_length for segment in line.segments) for line in lines)
            lines.append(decoration(Segment("━" * under, self._styles.title)))
        return lines

    def _list(self, token: "Token", inner: list["Token"], width: int, style: Style, depth: int) -> list[Line]:
        bullet = _BULLETS[min(depth, len(_BULLETS) - 1)]
        number = int(token.attrs.get("start", 1))
        loose = any(
            part.type == "paragraph_open" and not part.hidden and part.level == token.level + 2 for part in inner
        )
        lines: list[Line] = []
        at = 0
        while at < len(inner):
            end = _end(inner, at)
            item = inner[at + 1 : end]
            marker = _task(item) or (f"{number}." if token.type == "ordered_list_open" else bullet)
            lines += [BLANK] if loose and lines else []
            lines += self._item(marker, item, width, style, depth)
            at, number = end + 1, number + 1
        return lines

    def _item(self, marker: str, item: list["Token"], width: int, style: Style, depth: int) -> list[Line]:
        first = Segment(marker + " ", self._styles.marker)
        later = Segment(" " * len(first.text), Style.null())
        lines = self.lines(item, _narrower(width, len(first.text)), style, depth + 1)
        return _behind(first, later, lines or [BLANK], width)

    def _code(self, token: "Token", width: int) -> list[Line]:
        self._codes += 1
        language = language_of(sanitize(token.info))
        label = code_label(language, self._codes, self._styles, width)
        return [label, *code_lines(sanitize(token.content).removesuffix("\n"), language, self._styles, width)]

    def _table(self, inner: list["Token"], width: int, style: Style) -> list[Line]:
        rows: list[list[list[Span]]] = []
        aligns: list[str] = []
        for at, token in enumerate(inner):
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "th_open":
                aligns.append(str(token.attrs.get("style", "")).removeprefix("text-align:") or "left")
                rows[-1].append(self._inline(inner[at + 1], style + self._styles.subheading))
            elif token.type == "td_open":
                rows[-1].append(self._inline(inner[at + 1], style))
        return table_lines(rows, aligns, self._styles, width)


def _end(tokens: list["Token"], at: int) -> int:
    """The index of the token that closes the one at `at`; `at` if it is self-contained."""
    if tokens[at].nesting != 1:
        return at
    level = tokens[at].level
    return next(end for end in range(at + 1, len(tokens)) if tokens[end].level == level and tokens[end].nesting == -1)


def _narrower(width: int, by: int) -> int:
    return min(width, max(_MIN_WIDTH, width - by))


def _task(item: list["Token"]) -> str | None:
    """The box of a task item, removed from its text; None for another item."""
    text = item[1].children[0] if len(item) > 1 and item[1].type == "inline" and item[1].children else None
    box = _TASKS.get(text.content[:4]) if text is not None and text.type == "text" else None
    if box and text is not None:
        text.content = text.content[4:]
    return box


def _behind(first: Segment, later: Segment, lines: list[Line], width: int) -> list[Line]:
    """Lines with decoration before them, if it fits the width."""
    fits = all(len(first.text) + sum(part.cell_length for part in line.segments) <= width for line in lines)
    if not fits:
        return lines
    return [line.after(later if number else first) for number, line in enumerate(lines)]
