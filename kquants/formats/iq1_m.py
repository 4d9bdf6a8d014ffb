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
from kquants.formats.grid_weights import odd_scales
from kquants.formats.ternary_points import halves_of_points
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, SuperBlockScales, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 56, 8, 2
BITS, OFFSET = ternary_points.BITS, ternary_points.OFFSET


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = 8g ± 1 + OFFSET."""
    scales = tile.word(48), tile.word(52)
    for j in range(8):
        low, high = tile.word(4 * j), tile.word(32 + 4 * (j // 2)) >> 16 * (j % 2)
        indices = [low >> 8 * p & 255 | high.moved(4 * p, 8) & 0x700 for p in range(4)]
        is_less = [high.every_bit(4 * p + 3) for p in range(4)]
        for half, u in enumerate(halves_of_points(indices, is_less)):
            yield HalfBlock(j, half, u)
        two = scales[j // 4] >> 16 * (j // 2 % 2) + 6 * (j % 2)
        yield UnitScales(j, odd_scales(two & 7 | two << 13 & 0x70000))
    first, second = scales
    d = first >> 12 & 0xF | first >> 24 & 0xF0 | second >> 4 & 0xF00 | second >> 16 & 0xF000
    yield SuperBlockScales(d.half(0) * 0.125)
