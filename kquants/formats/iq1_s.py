"""IQ1_S: super-blocks of 256 weights in 50 bytes: eight blocks of 32 with a 3-bit scale each, w = d / 8 ·
(2 scale + 1) · (8g ± 1), and eight g in a point of a grid of 2,048 (ggml: block_iq1_s).

    byte  0       2                     34                       50
          [ d f16 | qs: point, bits 7-0 | qh: 8 × 16 bits, LE    ]

        each 32 weights j have four points p, and a scale:

        point p       low bits   byte 2 + 4j + p,   bits 10-8  qh[j], bits 3p + 2 … 3p
        scale, sign   qh[j], bits 14-12, and bit 15: set where all weights are 8g - 1
"""

from collections.abc import Iterator

from kquants.formats import ternary_points
from kquants.formats.grid_points import odd_scales
from kquants.formats.ternary_points import TernaryPoints, ternary_weights
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, SuperBlockScales, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 50, 8, 1
BITS, OFFSET = ternary_points.BITS, ternary_points.OFFSET


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = 8g ± 1 + OFFSET."""
    for pair in range(4):
        high = tile.word(34 + 4 * pair)
        points = [
            TernaryPoints(tile.word(2 + 8 * pair + 4 * i), high, 16 * i, 3, [high.every_bit(16 * i + 15)] * 4)
            for i in (0, 1)
        ]
        for i, u in enumerate(ternary_weights(points)):
            yield HalfBlock(2 * pair + i // 2, i % 2, u)
        yield UnitScales(pair, odd_scales(high >> 12 & 0x00070007))
    yield SuperBlockScales(tile.half(0) * 0.125)
