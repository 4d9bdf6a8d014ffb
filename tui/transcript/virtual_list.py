"""A virtualized list: all entries one below the other, rendered only where they come into view."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from tui.transcript.cache import LineCache
from tui.transcript.entry import TranscriptEntry
from tui.transcript.entry_blocks import EntryBlocks
from tui.transcript.lines import BLANK, Line
from tui.transcript.styles import TranscriptStyles
from tui.transcript.virtual_row import VirtualRow


class LinePosition(NamedTuple):
    """A line of a block: number `line` of its `height` lines. `key` is the key of the row's entry."""

    row: int
    key: int
    block: int
    line: int
    height: int


class VirtualList:
    """Rows at a width. Heights are estimates until `measure` has rendered the blocks."""

    def __init__(self, styles: TranscriptStyles, width: int) -> None:
        self.rows: list[VirtualRow] = []
        self.width = width
        self.styles = styles
        self._cache = LineCache(styles, width)
        self._index: dict[int, int] = {}
        self._tops: list[int] | None = None

    def restyle(self, styles: TranscriptStyles, width: int) -> None:
        """Set styles and width. Another width makes all heights unknown."""
        self.styles = styles
        self._cache = LineCache(styles, width)
        if width != self.width:
            self.width = width
            for row in self.rows:
                row.reset_heights()
            self._tops = None

    def set_entries(self, entries: Sequence[TranscriptEntry]) -> None:
        """Replace the entries; unchanged ones keep their blocks and heights."""
        before = {row.content.entry.key: row for row in self.rows}
        self.rows = []
        for entry in entries:
            row = before.get(entry.key)
            if row is None:
                row = VirtualRow(EntryBlocks(entry))
            elif row.content.entry is not entry and row.content.entry != entry:
                row.content.update(entry)
                row.update(self.width)
            self.rows.append(row)
        self._index = {entry.key: number for number, entry in enumerate(entries)}
        self._tops = None

    @property
    def keys(self) -> list[int]:
        """The keys of the entries, from the first to the last."""
        return list(self._index)

    def row_range(self, key: int) -> tuple[int, int]:
        """The first line of an entry's row, and the line after its last one."""
        number = self._index[key]
        return self.tops()[number], self.tops()[number + 1]

    def row(self, key: int) -> VirtualRow | None:
        """The row of an entry, None for an unknown key."""
        number = self._index.get(key)
        return None if number is None else self.rows[number]

    def row_changed(self, row: VirtualRow) -> int:
        """Note that the entry of a row was replaced or folded; return the first line of the list that differs."""
        same = row.update(self.width)
        self._tops = None
        return self.tops()[self._index[row.content.entry.key]] + row.tops(self.width)[same]

    def tops(self) -> list[int]:
        """The first line of each row, and the line after the last row."""
        if self._tops is None:
            self._tops = [0, *accumulate(row.height(self.width) for row in self.rows)]
        return self._tops

    def position(self, y: int) -> LinePosition | None:
        """The position of line `y` from the top; None outside of the list."""
        tops = self.tops()
        if not 0 <= y < tops[-1]:
            return None
        number = bisect_right(tops, y) - 1
        block_tops = self._block_tops(number)
        local = min(y - tops[number], block_tops[-1] - 1)
        block = bisect_right(block_tops, local) - 1
        return LinePosition(
            number,
            self.rows[number].content.entry.key,
            block,
            local - block_tops[block],
            block_tops[block + 1] - block_tops[block],
        )

    def y(self, position: LinePosition) -> int:
        """The line number of a position now. If its entry is gone, the entry that took its place is used."""
        if not self.rows:
            return 0
        number = min(self._index.get(position.key, position.row), len(self.rows) - 1)
        block_tops = self._block_tops(number)
        block = min(position.block, len(block_tops) - 2)
        height = block_tops[block + 1] - block_tops[block]
        line = position.line if height == position.height else position.line * height // max(1, position.height)
        return self.tops()[number] + block_tops[block] + line

    def measure(self, y: int, above: int, below: int) -> int:
        """Render the `above` lines before `y` and the `below` lines from it on; return the new `y` of that line."""
        position = self.position(y)
        if position is None:
            number, block = len(self.rows), 0
        else:
            number, block, below, above = position.row, position.block, below + position.line, above - position.line
        self._measure_rows(self._after(number, block), below)
        self._measure_rows(self._before(number, block), above)
        return self.tops()[-1] if position is None else self.y(position)

    def find(self, key: int, words: Sequence[str]) -> LinePosition | None:
        """The first line of an entry that contains one of the lower-case words."""
        number = self._index[key]
        row = self.rows[number]
        for block in range(len(self._block_tops(number)) - 1):
            lines = self._lines(row, block)
            for at, line in enumerate(lines):
                text = line.text.casefold()
                if block and any(word in text for word in words):  # the first block is the heading
                    return LinePosition(number, key, block, at, len(lines))
        return None

    def line(self, position: LinePosition) -> Line:
        """The line at a position."""
        lines = self._lines(self.rows[position.row], position.block)
        return lines[position.line] if position.line < len(lines) else BLANK

    def _measure_rows(self, blocks: Iterator[tuple[VirtualRow, int]], lines: int) -> None:
        while lines > 0 and (found := next(blocks, None)):
            row, block = found
            lines -= row.measured_height(block) or len(self._lines(row, block))

    def _lines(self, row: VirtualRow, block: int) -> list[Line]:
        before = row.height(self.width)
        lines = row.measure(block, self._cache)
        if row.height(self.width) != before:
            self._tops = None
        return lines

    def _after(self, number: int, first: int) -> Iterator[tuple[VirtualRow, int]]:
        """The blocks from block `first` of row `number` on."""
        for at in range(number, len(self.rows)):
            for block in range(first, len(self._block_tops(at)) - 1):
                yield self.rows[at], block
            first = 0

    def _before(self, number: int, end: int) -> Iterator[tuple[VirtualRow, int]]:
        """The blocks before block `end` of row `number`, backwards."""
        for block in range(end - 1, -1, -1):
            yield self.rows[number], block
        for at in range(number - 1, -1, -1):
            for block in range(len(self._block_tops(at)) - 2, -1, -1):
                yield self.rows[at], block

    def _block_tops(self, number: int) -> list[int]:
        """The first line of each block of a row. Splitting it into blocks now may correct its estimated height."""
        row = self.rows[number]
        estimate = row.height(self.width)
        block_tops = row.tops(self.width)
        if block_tops[-1] != estimate:
            self._tops = None
        return block_tops
