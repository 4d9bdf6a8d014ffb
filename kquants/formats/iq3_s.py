"""IQ3_S: super-blocks of 256 weights in 110 bytes: eight blocks of 32 with a 4-bit scale each, w = d · (2 scale + 1) ·
± magnitude, and four magnitudes in a point of a grid of 512 (ggml: block_iq3_s).

    byte  0       2                     66                74                     106            110
          [ d f16 | qs: point, bits 7-0 | qh: point, bit 8 | signs: 32 bytes      | scales: 4 B  ]

        point p of block j    low bits  byte 2 + 8j + p,   bit 8  byte 66 + j, bit p;  p = 0 … 7
        sign of weight l      byte 74 + 4j + l / 8, bit l mod 8; set where it is negative
        scale of block j      byte 106 + j / 2, low nibble for even j, else high
"""

from collections.abc import Iterator

from kquants.formats.grid_points import BitOfEach, Points, scales_of_nibbles
from kquants.formats.grid_rows import indices_with_high_bits, scales_in_nibbles, unpacked_row
from kquants.formats.grid_weights import grid_weights
from kquants.formats.grids.iq3_s import IQ3_S
from kquants.formats.packed_bytes import Floats
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, SuperBlockScales, UnitScales, Unpacked
from kquants.formats.weight_row import UnpackedRow, WeightRow

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 110, 8, 1
BITS, OFFSET = 5, 16


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = weight + 16."""
    scales = tile.word(106)
    for pair in range(4):
        points = [_points(tile, j, half) for j in (2 * pair, 2 * pair + 1) for half in (0, 1)]
        for i, u in enumerate(grid_weights(IQ3_S, points, OFFSET)):
            yield HalfBlock(2 * pair + i // 2, i % 2, u)
        yield UnitScales(pair, scales_of_nibbles(scales, pair))
    yield SuperBlockScales(tile.half(0))


def _points(tile: Tile, j: int, half: int) -> Points:
    high = BitOfEach(tile.word(66 + j // 4 * 4), 8 * (j % 4) + 4 * half)
    return Points(tile.word(2 + 8 * j + 4 * half), tile.word(74 + 4 * j), 16 * half, [high])


def unpack_row(row: WeightRow) -> UnpackedRow:
    """What a super-block of a row holds: u = magnitude."""
    indices = indices_with_high_bits(row, low_at=2, high_at=66, points=64, bits=1)
    return unpacked_row(row, IQ3_S, indices, row.few_bytes(74, 32), scales_in_nibbles(row, 106, 4))


def row_factors(tile: Tile) -> Floats:
    """d of each row."""
    return tile.halves(0)
