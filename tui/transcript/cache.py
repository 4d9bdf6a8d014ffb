"""A cache of rendered lines."""

from collections import OrderedDict

from tui.transcript.blocks import Block, block_lines
from tui.transcript.lines import Line
from tui.transcript.styles import TranscriptStyles

_MAX_LINES = 3_000  # lines kept; one takes about a kilobyte


class LineCache:
    """The lines of the most recently used blocks, for one set of styles and one width."""

    def __init__(self, styles: TranscriptStyles, width: int) -> None:
        self._styles = styles
        self._width = width
        self._kept: OrderedDict[Block, list[Line]] = OrderedDict()
        self._count = 0

    def lines(self, block: Block) -> list[Line]:
        """All lines of a block, with the gap above it."""
        lines = self._kept.get(block)
        if lines is None:
            lines = self._kept[block] = block_lines(block, self._styles, self._width)
            self._count += len(lines)
            while self._count > _MAX_LINES and len(self._kept) > 1:
                self._count -= len(self._kept.popitem(last=False)[1])
        else:
            self._kept.move_to_end(block)
        return lines
