"""Rendering tables."""

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style

from tui.transcript.lines import BLANK, Line, Span, decoration, wrap
from tui.transcript.styles import TranscriptStyles

Cell = list[Span]

_MIN_WIDTH = 6  # least cells of a column that is made narrower; if the columns still do not fit, rows become lists
_BETWEEN = " │ "


def table_lines(
    rows: Sequence[Sequence[Cell]], aligns: Sequence[str], styles: TranscriptStyles, width: int
) -> list[Line]:
    """A table, whose first row is the heading; `aligns` has `left`, `center` or `right` for each column."""
    natural = [max(_width(row[column]) for row in rows) for column in range(len(aligns))]
    widths = _fit(natural, width - len(_BETWEEN) * (len(aligns) - 1))
    if widths is None:
        return _records(rows, styles, width)
    head, *body = [_row(row, widths, aligns, styles) for row in rows]
    line = decoration(Segment("─┼─".join("─" * column for column in widths), styles.rule))
    apart = any(len(row) > 1 for row in body)  # a rule separates rows of several lines
    lines = [*head, line]
    for number, row in enumerate(body):
        lines += [line, *row] if apart and number else row
    return lines


def _width(cell: Cell) -> int:
    return max((sum(segment.cell_length for segment in line.segments) for line in wrap(cell, 10_000)), default=0)


def _fit(natural: Sequence[int], width: int) -> list[int] | None:
    """Column widths that fit `width`, the widest columns narrowed first; None if they would be too narrow."""
    widths = [max(column, 1) for column in natural]
    low, high = 0, max(widths)
    while low < high:  # bisect for the largest limit that fits
        limit = (low + high + 1) // 2
        low, high = (limit, high) if sum(min(column, limit) for column in widths) <= width else (low, limit - 1)
    fitted = [min(column, low) for column in widths]
    narrow = any(given < min(wanted, _MIN_WIDTH) for given, wanted in zip(fitted, widths, strict=True))
    return None if narrow or low < 1 else fitted


def _row(row: Sequence[Cell], widths: Sequence[int], aligns: Sequence[str], styles: TranscriptStyles) -> list[Line]:
    cells = [wrap(cell, max(2, width)) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for number in range(max(map(len, cells))):
        segments: list[Segment] = []
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            if column:
                segments.append(Segment(_BETWEEN, styles.rule))
            segments += _padded(cell[number] if number < len(cell) else BLANK, width, aligns[column])
        lines.append(Line(tuple(segments)))
    return lines


def _padded(line: Line, width: int, align: str) -> list[Segment]:
    space = width - sum(segment.cell_length for segment in line.segments)
    left = {"left": 0, "center": space // 2, "right": space}[align]
    parts = [Segment(" " * left, Style.null()), *line.segments, Segment(" " * (space - left), Style.null())]
    return [part for part in parts if part.text]


def _records(rows: Sequence[Sequence[Cell]], styles: TranscriptStyles, width: int) -> list[Line]:
    """A table too wide to fit: each row as lines of `heading: value`."""
    head, *body = rows
    lines: list[Line] = []
    for row in body:
        lines += [BLANK] if lines else []
        for name, cell in zip(head, row, strict=True):
            lines += wrap([*name, (": ", styles.muted), *cell], width)
    return lines or wrap([part for name in head for part in (*name, (" ", styles.muted))], width)
