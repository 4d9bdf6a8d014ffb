"""The kinds of blocks in a message. Each is rendered on its own, when it is visible."""

from dataclasses import dataclass
from typing import Protocol

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

from edgellm.terminal.sanitize import sanitize
from tui.transcript.code import code_label, code_lines
from tui.transcript.lines import BLANK, Line, decoration, wrap
from tui.transcript.markdown import Markdown
from tui.transcript.parser import Links, parse
from tui.transcript.styles import TranscriptStyles


class Block(Protocol):
    """A part of a message. Equal blocks have equal lines."""

    @property
    def source(self) -> str:
        """The text, from which the height is estimated."""

    @property
    def gap(self) -> bool:
        """Whether a blank line is above it."""

    def lines(self, styles: TranscriptStyles, width: int) -> list[Line]:
        """Render it in lines of at most `width` cells."""


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """One block of Markdown, or one item of a list; `number` is its number in an ordered list.

    `code_blocks_before` code blocks come before it in the message; `links` are the references that it may use.
    """

    source: str
    gap: bool
    number: int | None = None
    code_blocks_before: int = 0
    links: Links = ()

    def lines(self, styles: TranscriptStyles, width: int) -> list[Line]:
        """Rendered Markdown; the source if parsing would take too long."""
        tokens = parse(self.source, self.links)
        if tokens is None:
            return wrap([(self.source.expandtabs(4), Style.null())], width)
        if self.number is not None:
            tokens[0].attrs["start"] = self.number
        return Markdown(styles, self.code_blocks_before).lines(tokens, width, Style.null())


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Some lines of a code block. Its first part has the `label`, the block's number in the message."""

    source: str
    gap: bool
    language: str
    label: int | None

    def lines(self, styles: TranscriptStyles, width: int) -> list[Line]:
        """The label, and the highlighted code."""
        label = [code_label(self.language, self.label, styles, width)] if self.label is not None else []
        return label + code_lines(self.source, self.language, styles, width)


@dataclass(frozen=True, slots=True)
class PlainText:
    """Text as written."""

    source: str
    gap: bool = False

    def lines(self, styles: TranscriptStyles, width: int) -> list[Line]:
        """The text, wrapped."""
        return wrap([(sanitize(self.source).expandtabs(4), Style.null())], width)


@dataclass(frozen=True, slots=True)
class Heading:
    """The author of a message, and at the right, if there are several versions, which one, with arrows to change it."""

    source: str
    role: str
    key: int
    version: int
    versions: int
    gap: bool = True

    def lines(self, styles: TranscriptStyles, width: int) -> list[Line]:
        """One line."""
        style: Style = getattr(styles, self.role)
        marker = self._marker(styles) if self.versions > 1 else []
        room = width - sum(part.cell_length for part in marker) - 2
        name = sanitize(self.source).replace("\n", " ")
        name = wrap([(name, style)], max(2, room))[0].text
        parts = [Segment(name, style)]
        if marker:
            parts += [Segment(" " * max(1, room + 2 - cell_len(name)), Style.null()), *marker]
        return [Line(tuple(parts))]

    def _marker(self, styles: TranscriptStyles) -> list[Segment]:
        parts = (("‹ ", -1), (f"{self.version}/{self.versions}", 0), (" ›", 1))
        return [Segment(text, styles.muted + Style(meta={"walk": step} if step else {})) for text, step in parts]


@dataclass(frozen=True, slots=True)
class FoldLine:
    """The line above text that is `opened`, or in place of folded text, and describes it; a click toggles it."""

    source: str
    opened: bool
    gap: bool = False

    def lines(self, styles: TranscriptStyles, width: int) -> list[Line]:
        """One line."""
        text = f"{'▾' if self.opened else '▸'} {sanitize(self.source)}"
        text = text if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"
        return [decoration(Segment(text, styles.muted + Style(meta={"fold": True})))]


@dataclass(frozen=True, slots=True)
class StatsLine:
    """The line of statistics below a reply."""

    source: str
    gap: bool = True

    def lines(self, styles: TranscriptStyles, width: int) -> list[Line]:
        """The statistics, muted. Lines break between two of them."""
        rows: list[str] = []
        for figure in sanitize(self.source).replace("\n", " ").split(" · "):
            if rows and cell_len(longer := f"{rows[-1]} · {figure}") <= width:
                rows[-1] = longer
            else:
                rows.append(figure)
        return [line for row in rows for line in wrap([(row, styles.muted)], width)]


def block_lines(block: Block, styles: TranscriptStyles, width: int) -> list[Line]:
    """All lines of a block, with the gap above it."""
    lines = block.lines(styles, width)
    return [BLANK, *lines] if block.gap else lines
