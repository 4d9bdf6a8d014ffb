"""IQ2_S: super-blocks of 256 weights in 82 bytes: sixteen blocks of 16 with a 4-bit scale each, w = d / 8 ·
(2 scale + 1) · ± magnitude, and eight magnitudes in a point of a grid of 1,024 (ggml: block_iq2_s).

    byte  0       2                     34                66                    74              82
          [ d f16 | qs: point, bits 7-0 | signs: 32 bytes | qh: point, bits 9-8 | scales: 8 B   ]

        each 32 weights j have four points p, and two scales:

        point p               low bits  byte 2 + 4j + p,   bits 9-8  byte 66 + j, bits 2p + 1, + 0
        sign of weight l      byte 34 + 4j + l / 8, bit l mod 8; set where it is negative
        scales                byte 74 + j, low nibble for l < 16, high nibble for the rest
"""

from collections.abc import Iterator

from kquants.formats.grid_weights import BitOfEach, Indices, grid_weights, scales_of_nibbles
from kquants.formats.grids.iq2_s import IQ2_S
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import SIGNED, HalfBlock, SuperBlockScales, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 82, 8, 2
BITS, OFFSET = 6, SIGNED


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = weight + SIGNED_OFFSET."""
    for j in range(8):
        high, byte = tile.word(66 + j // 4 * 4), j % 4
        points = Indices(tile.word(2 + 4 * j), [BitOfEach(high, 8 * byte + bit, 2) for bit in (0, 1)])
        for half, u in enumerate(grid_weights(IQ2_S, points, tile.word(34 + 4 * j))):
            yield HalfBlock(j, half, u)
        yield UnitScales(j, scales_of_nibbles(tile.word(74 + j // 4 * 4), byte))
    yield SuperBlockScales(tile.half(0) * 0.125)
