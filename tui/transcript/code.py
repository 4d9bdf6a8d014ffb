"""Rendering code blocks."""

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from tui.transcript.highlight import highlight
from tui.transcript.lines import Line, decoration, wrap
from tui.transcript.styles import TranscriptStyles

_BAR = "│ "


def code_label(language: str, number: int, styles: TranscriptStyles, width: int) -> Line:
    """The line above a code block, the `number`-th of its message; a click on it copies the block."""
    style = styles.label + Style(meta={"code": number})
    hint = f"copy {number}"
    name = language[: max(0, width - len(hint) - 4)]
    space = " " * (width - len(_BAR) - cell_len(name) - len(hint) - 1)
    parts = (Segment(_BAR, styles.code + styles.rule), Segment(name + space + hint + " ", style))
    return decoration(*parts)


def code_lines(code: str, language: str, styles: TranscriptStyles, width: int) -> list[Line]:
    """The lines of code on their background, `width` cells wide."""
    inner = width - len(_BAR) - 1
    bar = Segment(_BAR, styles.code + styles.rule)
    lines = []
    for line in wrap(highlight(code.expandtabs(4), language, styles), inner):
        space = width - len(_BAR) - sum(segment.cell_length for segment in line.segments)
        padding = Segment(" " * space, styles.code)
        lines.append(Line((bar, *line.segments, padding), len(_BAR), line.join))
    return lines


def language_of(info: str) -> str:
    """The language of a fence: the first word after it."""
    words = info.replace("{", " ").replace("}", " ").split()
    return words[0].lstrip(".").lower() if words else ""
