"""The height of an entry: measured for rendered blocks, estimated for the others."""

from itertools import accumulate

from tui.transcript.blocks import Block
from tui.transcript.cache import LineCache
from tui.transcript.entry_blocks import EntryBlocks
from tui.transcript.lines import Line


class VirtualRow:
    """An entry in the list. Its text is split into blocks when the first of them comes into view."""

    def __init__(self, content: EntryBlocks) -> None:
        self.content = content
        self._blocks: list[Block] | None = None
        self._heights: list[int] = []
        self._measured: list[bool] = []
        self._tops: list[int] | None = None
        self._estimate: int | None = None  # the estimated height of a row without blocks

    def height(self, width: int) -> int:
        """The height in lines of `width` cells."""
        if self._blocks is not None:
            return self.tops(width)[-1]
        if self._estimate is None:
            self._estimate = 3 + _estimate(self.content.entry.text, width)
        return self._estimate

    def tops(self, width: int) -> list[int]:
        """The first line of each block, counted from the top of the row, and the height of the row."""
        if self._blocks is None:
            self._split(width)
        if self._tops is None:
            self._tops = [0, *accumulate(self._heights)]
        return self._tops

    def block(self, number: int) -> Block:
        """A block; the row must be split."""
        assert self._blocks is not None
        return self._blocks[number]

    def update(self, width: int) -> int:
        """Split the changed entry; return the first block number that differs. Equal blocks keep their height."""
        self._estimate = None
        return 0 if self._blocks is None else self._split(width)

    def _split(self, width: int) -> int:
        before, blocks = self._blocks or [], self.content.blocks
        pairs = enumerate(zip(before, blocks, strict=False))
        same = next((at for at, (old, new) in pairs if old is not new and old != new), min(len(before), len(blocks)))
        self._heights[same:] = [block.gap + _estimate(block.source, width) for block in blocks[same:]]
        self._measured[same:] = [False] * (len(blocks) - same)
        self._blocks, self._tops = blocks, None
        return same

    def reset_heights(self) -> None:
        """Forget all heights, for another width."""
        self._blocks = self._estimate = None
        self._heights, self._measured = [], []

    def measure(self, number: int, cache: LineCache) -> list[Line]:
        """Render a block, and record its height."""
        lines = cache.lines(self.block(number))
        if self._heights[number] != len(lines):
            self._heights[number] = len(lines)
            self._tops = None
        self._measured[number] = True
        return lines

    def measured_height(self, number: int) -> int | None:
        """The height of a block, None if it was not rendered."""
        return self._heights[number] if self._measured[number] else None


def _estimate(text: str, width: int) -> int:
    return text.count("\n") + 1 + len(text) // max(1, width)
