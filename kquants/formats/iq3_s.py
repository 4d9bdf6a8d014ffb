"""IQ3_S: super-blocks of 256 weights in 110 bytes: eight blocks of 32 with a 4-bit scale each, w = d · (2 scale + 1) ·
± magnitude, and four magnitudes in a point of a grid of 512 (ggml: block_iq3_s).

    byte  0       2                     66                74                     106            110
          [ d f16 | qs: point, bits 7-0 | qh: point, bit 8 | signs: 32 bytes      | scales: 4 B  ]

        point p of block j    low bits  byte 2 + 8j + p,   bit 8  byte 66 + j, bit p;  p = 0 … 7
        sign of weight l      byte 74 + 4j + l / 8, bit l mod 8; set where it is negative
        scale of block j      byte 106 + j / 2, low nibble for even j, else high
"""

from collections.abc import Iterator

from kquants.formats.grid_weights import BitOfEach, Indices, grid_weights, scales_of_nibbles
from kquants.formats.grids.iq3_s import IQ3_S
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import SIGNED, HalfBlock, SuperBlockScales, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 110, 8, 1
BITS, OFFSET = 4, SIGNED


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = weight + SIGNED_OFFSET."""
    scales = tile.word(106)
    for j in range(8):
        signs, high = tile.word(74 + 4 * j), tile.word(66 + j // 4 * 4)
        for half in range(2):
            points = Indices(tile.word(2 + 8 * j + 4 * half), [BitOfEach(high, 8 * (j % 4) + 4 * half)])
            (u,) = grid_weights(IQ3_S, points, signs, 16 * half)
            yield HalfBlock(j, half, u)
        if j % 2:
            yield UnitScales(j // 2, scales_of_nibbles(scales, j // 2))
    yield SuperBlockScales(tile.half(0))
