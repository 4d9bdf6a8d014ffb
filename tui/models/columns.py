"""The lines of the list of models, with as many columns as fit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from edgellm.fmt import count, printable, size
from tui.models.row import Fit, ModelRow

_MIN_NAME, _GAP, _MARK = 24, "  ", "● "
_MAX_NAME = 48
"""Cells of the longest name for which the column of notes is left out."""
_STYLES: dict[Fit, str] = {"fits": "$text-success", "tight": "$text-warning", "too large": "$text-error", "unknown": ""}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column. The ones with the highest `rank` are left out first if there is little room."""

    title: str
    width: int
    rank: int
    cell: Callable[[ModelRow], str]
    right: bool = True
    style: Callable[[ModelRow], str] = lambda row: ""


def _count(row: ModelRow) -> str:
    return count(row.parameters) if row.parameters else ""


def _size(row: ModelRow) -> str:
    return size(row.bytes) if row.bytes is not None else ""


_SIZE = TableColumn("size", 7, 1, _size)
_FIT = TableColumn(
    "memory", 9, 0, lambda row: "" if row.fit == "unknown" else row.fit, right=False, style=lambda row: _STYLES[row.fit]
)

TableColumns: TypeAlias = tuple[TableColumn, ...]

HERE: TableColumns = (
    TableColumn("params", 6, 3, _count),
    TableColumn("type", 8, 2, lambda row: row.quantization, right=False),
    _SIZE,
    TableColumn("context", 9, 4, lambda row: f"{row.context:,}" if row.context else ""),
    _FIT,
    TableColumn("from", 12, 5, lambda row: row.source, right=False),
)
_OFFERED: TableColumns = (
    _SIZE,
    _FIT,
    TableColumn("good at", 33, 2, lambda row: row.note, right=False, style=lambda row: "$foreground-muted"),
)


def offered(rows: Iterable[ModelRow], width: int) -> TableColumns:
    """Columns for models to pull. Their names may differ only in the middle: notes are shown if names fit whole."""
    longest = max((cell_len(_MARK + printable(row.name, 400)) for row in rows), default=0)
    return _OFFERED if _room(_OFFERED, width) >= min(longest, _MAX_NAME) else _OFFERED[:-1]


def broken(width: int) -> TableColumns:
    """Columns for models that cannot be opened: the reason gets all room but the name's."""
    room = max(1, width - _MIN_NAME - len(_GAP))
    return (
        TableColumn("", room, 0, lambda row: row.problem or "", right=False, style=lambda row: "$foreground-muted"),
    )


def visible(columns: TableColumns, width: int) -> list[TableColumn]:
    """The columns that fit beside a name."""
    shown = list(columns)
    while shown and _room(shown, width) < _MIN_NAME:
        shown.remove(max(shown, key=lambda column: column.rank))
    return shown


def heading(title: str, columns: TableColumns, width: int) -> Content:
    """The line above a section."""
    return _line(title, columns, width, ((column.title, "") for column in visible(columns, width)))


@lru_cache(maxsize=4096)  # a key in the filter shows most rows again
def row_line(row: ModelRow, columns: TableColumns, width: int, current: bool = False) -> Content:
    """The line of a model; `current` marks the open one."""
    cells = ((printable(column.cell(row), 400), column.style(row)) for column in visible(columns, width))
    name = printable(row.name, 400)
    return _line((_MARK if current else " " * len(_MARK)) + name, columns, width, cells)


def _room(columns: Sequence[TableColumn], width: int) -> int:
    """Cells left for the name."""
    return width - sum(len(_GAP) + column.width for column in columns)


def _line(name: str, columns: TableColumns, width: int, cells: Iterable[tuple[str, str]]) -> Content:
    shown = visible(columns, width)
    parts: list[str | tuple[str, str]] = [fitted(name, max(1, _room(shown, width)))]
    for column, (text, style) in zip(shown, cells, strict=True):
        parts += [_GAP, (fitted(text, column.width, column.right), style)]
    return Content.assemble(*parts)


def fitted(text: str, width: int, right: bool = False) -> str:
    """Text in exactly `width` cells. Long text is shortened in its middle, as names differ at their ends."""
    missing = width - cell_len(text)
    if missing >= 0:
        return " " * missing + text if right else text + " " * missing
    end = (width - 1) // 2
    return set_cell_size(text, width - 1 - end) + "…" + set_cell_size(text[::-1], end)[::-1]
