"""A line plot in characters: braille dots, or ASCII where the terminal has no others."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a braille cell's dots, by row and column (Unicode 16, section 21.1)."""

_LABEL = 6
Point = tuple[float, float]


@dataclass(frozen=True)
class PlotStyle:
    """Characters of a plot; `rows` and `columns` are the dots of a cell, which is braille if there are several."""

    rows: int = 4
    columns: int = 2
    point: str = "●"
    side: str = "│"
    corner: str = "└"
    floor: str = "─"


ASCII = PlotStyle(1, 1, "o", "|", "+", "-")


def style_for(encoding: str | None) -> PlotStyle:
    """Braille, or ASCII if the encoding does not have it."""
    try:
        f"⣿{''.join(str(each) for each in vars(PlotStyle()).values())}".encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return ASCII
    return PlotStyle()


@dataclass(frozen=True)
class Plot:
    """Points joined by lines, over an x axis from 0 to `right`; the y axis goes from `low` to `high`.

    `guides` are dotted lines between two points. A logarithmic axis is made by the caller, with logarithms as y and
    `labels` for the two ends.
    """

    title: str
    points: Sequence[Point]
    right: float
    low: float
    high: float
    labels: tuple[str, str]
    guides: Sequence[tuple[Point, Point]] = field(default=())


def draw(plot: Plot, width: int, height: int, style: PlotStyle) -> list[str]:
    """The lines of a plot: a title, `height` lines of `width` characters with labels, and the x axis."""
    inner = width - _LABEL - 1
    canvas = _Canvas(plot, inner, height, style)
    for begin, end in plot.guides:
        canvas.line(begin, end, 3)
    for begin, end in zip(plot.points, plot.points[1:], strict=False):
        canvas.line(begin, end, 1)
    rows = canvas.rows()
    low, high = (label.rjust(_LABEL) for label in plot.labels)
    left = [high, *[" " * _LABEL] * (height - 2), low]
    lines = [plot.title.ljust(width)]
    lines += [f"{label}{style.side}{row}" for label, row in zip(left, rows, strict=True)]
    lines.append(f"{' ' * _LABEL}{style.corner}{style.floor * inner}")
    lines.append(f"{' ' * _LABEL} 0{f'{plot.right:g}'.rjust(inner - 1)}")
    return lines


class _Canvas:
    """The dots and marks of a plot."""

    def __init__(self, plot: Plot, width: int, height: int, style: PlotStyle) -> None:
        self._plot, self._style = plot, style
        self._width, self._height = width, height
        self._dots = set[tuple[int, int]]()

    def line(self, begin: Point, end: Point, step: int) -> None:
        """Set dots between two points: every one, or every third."""
        (x0, y0), (x1, y1) = self._place(begin), self._place(end)
        count = max(abs(x1 - x0), abs(y1 - y0), 1)
        for i in range(0, count + 1, step):
            self._dots.add((round(x0 + (x1 - x0) * i / count), round(y0 + (y1 - y0) * i / count)))

    def rows(self) -> Iterator[str]:
        """The lines of characters, the top one first."""
        marks = {self._cell(self._place(point)) for point in self._plot.points}
        bits: dict[tuple[int, int], int] = {}
        for x, y in self._dots:
            cell = self._cell((x, y))
            bits[cell] = bits.get(cell, 0) | _DOTS[y % self._style.rows][x % self._style.columns]
        for row in range(self._height):
            cells = ((column, row) for column in range(self._width))
            yield "".join(self._style.point if cell in marks else self._shown(bits.get(cell, 0)) for cell in cells)

    def _shown(self, bits: int) -> str:
        if not bits:
            return " "
        return chr(_BRAILLE + bits) if self._style.rows > 1 else "."

    def _cell(self, dot: tuple[int, int]) -> tuple[int, int]:
        return dot[0] // self._style.columns, dot[1] // self._style.rows

    def _place(self, point: Point) -> tuple[int, int]:
        """The dot of a point; those beyond the axes are at their ends. Row 0 is the top."""
        plot, style = self._plot, self._style
        x = _share(point[0], 0, plot.right) * (self._width * style.columns - 1)
        y = (1 - _share(point[1], plot.low, plot.high)) * (self._height * style.rows - 1)
        return round(x), round(y)


def _share(value: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0


def log_axis(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten that enclose values above 0, as logarithms."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)
