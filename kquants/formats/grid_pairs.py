"""Super-blocks of eight blocks whose points have eight weights, with two scales of 4 bits a block: IQ2_XS and IQ2_S."""

from collections.abc import Callable, Iterator

from kquants.formats.grid_points import Points, scales_of_nibbles
from kquants.formats.grid_weights import grid_weights
from kquants.formats.grids.grid import Grid
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, SuperBlockScales, UnitScales, Unpacked


def unpack_pairs(
    tile: Tile, grid: Grid, points_of: Callable[[Tile, int], Points], scales_at: int
) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item, two blocks at a time: w = d / 8 · (2 scale + 1) · ± magnitude.

    `points_of(tile, j)` are the points of block j, whose scales are byte `scales_at` + j: the low nibble is that of the
    first 16 weights. d is at byte 0.
    """
    for pair in range(4):
        blocks = (2 * pair, 2 * pair + 1)
        for i, u in enumerate(grid_weights(grid, [points_of(tile, j) for j in blocks])):
            yield HalfBlock(2 * pair + i // 2, i % 2, u)
        for j in blocks:
            yield UnitScales(j, scales_of_nibbles(tile.word(scales_at + j // 4 * 4), j % 4))
    yield SuperBlockScales(tile.half(0) * 0.125)
