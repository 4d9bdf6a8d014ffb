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

from kquants.formats.grid_pairs import unpack_pairs
from kquants.formats.grid_points import BitOfEach, Points
from kquants.formats.grid_rows import indices_with_high_bits, scales_in_nibbles, unpacked_row
from kquants.formats.grids.iq2_s import IQ2_S
from kquants.formats.packed_bytes import Floats
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import SIGNED, Unpacked
from kquants.formats.weight_row import UnpackedRow, WeightRow

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 82, 8, 2
BITS, OFFSET = 6, SIGNED


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = weight + SIGNED_OFFSET."""
    return unpack_pairs(tile, IQ2_S, _points, scales_at=74)


def unpack_row(row: WeightRow) -> UnpackedRow:
    """What a super-block of a row holds: u = magnitude."""
    indices = indices_with_high_bits(row, low_at=2, high_at=66, points=32, bits=2)
    return unpacked_row(row, IQ2_S, indices, row.few_bytes(34, 32), scales_in_nibbles(row, 74, 8))


def row_factors(tile: Tile) -> Floats:
    """d / 8 of each row."""
    return tile.halves(0) * 0.125


def _points(tile: Tile, j: int) -> Points:
    high = tile.word(66 + j // 4 * 4)
    return Points(
        tile.word(2 + 4 * j), tile.word(34 + 4 * j), high=[BitOfEach(high, 8 * (j % 4) + i, 2) for i in (0, 1)]
    )
