"""IQ1_M: super-blocks of 256 weights in 56 bytes: sixteen blocks of 16 with a 3-bit scale each, w = d / 8 ·
(2 scale + 1) · (8g ± 1), and eight g in a point of a grid of 2,048 (ggml: block_iq1_m).

    byte  0                     32                      48                          56
          [ qs: point, bits 7-0 | qh: a nibble a point  | scales: 4 × 16 bits, LE   ]

        each 32 weights j have four points p, and two scales:

        point p       low bits  byte 4j + p,   bits 10-8  bits 2-0 of its nibble
        sign          bit 3 of the nibble: set where the eight weights are 8g - 1
        nibble        byte 32 + 2j + p / 2, low nibble for even p, else high
        scales        16 bits j / 2: bits 6 (j mod 2) + 2 … + 0 for l < 16, + 5 … + 3 for the rest
        d f16         bits 15-12 of each 16 bits i are bits 4i + 3 … 4i of d
"""

from collections.abc import Iterator

from kquants.formats import ternary_points
from kquants.formats.grid_points import odd_scales
from kquants.formats.packed_bytes import Words
from kquants.formats.ternary_points import TernaryPoints, ternary_weights
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, SuperBlockScales, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 56, 8, 2
BITS, OFFSET = ternary_points.BITS, ternary_points.OFFSET


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = 8g ± 1 + OFFSET."""
    scales = tile.word(48), tile.word(52)
    for pair in range(4):
        high = tile.word(32 + 4 * pair)
        points = [TernaryPoints(tile.word(8 * pair + 4 * i), high, 16 * i, 4, _is_less(high, 16 * i)) for i in (0, 1)]
        for i, u in enumerate(ternary_weights(points)):
            yield HalfBlock(2 * pair + i // 2, i % 2, u)
            if i % 2:
                two = scales[pair // 2] >> 16 * (pair % 2) + 6 * (i // 2)
                yield UnitScales(2 * pair + i // 2, odd_scales(two & 7 | two << 13 & 0x70000))
    first, second = scales
    d = first >> 12 & 0xF | first >> 24 & 0xF0 | second >> 4 & 0xF00 | second >> 16 & 0xF000
    yield SuperBlockScales(d.half(0) * 0.125)


def _is_less(high: Words, first: int) -> list[Words]:
    return [high.every_bit(first + 4 * p + 3) for p in range(4)]
