"""IQ2_XS: super-blocks of 256 weights in 74 bytes: sixteen blocks of 16 with a 4-bit scale each, w = d / 8 ·
(2 scale + 1) · ± magnitude, and eight magnitudes in a point of a grid of 512 (ggml: block_iq2_xs).

    byte  0       2                              66              74
          [ d f16 | points, signs: 32 × uint16   | scales: 8 B   ]

        each 32 weights j have four numbers of 16 bits at byte 2 + 8j, and two scales:

        point p               bits 8-0 of number p
        signs                 bits 15-9 of number p are those of weights 8p … 8p + 6, set where one is negative;
                              their parity is that of weight 8p + 7: of the eight, an even number is negative
        scales                byte 66 + j, low nibble for weights 0 … 15, high nibble for the rest
"""

from collections.abc import Iterator

from llvmlite import ir

from kquants.formats.grid_pairs import unpack_pairs
from kquants.formats.grid_points import BitOfEach, Points, seven_signs
from kquants.formats.grid_rows import indices_of_16_bits, scales_in_nibbles, unpacked_row
from kquants.formats.grids.iq2_xs import IQ2_XS
from kquants.formats.packed_bytes import Floats
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import SIGNED, Unpacked
from kquants.formats.weight_row import UnpackedRow, WeightRow
from kquants.simd import joined, with_parity

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 74, 8, 2
BITS, OFFSET = 6, SIGNED

_INT16S = ir.VectorType(ir.IntType(16), 16)


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = weight + SIGNED_OFFSET."""
    return unpack_pairs(tile, IQ2_XS, _points, scales_at=66)


def unpack_row(row: WeightRow) -> UnpackedRow:
    """What a super-block of a row holds: u = magnitude."""
    b, numbers = row.b, [row.int16s(2 + 32 * i) for i in range(2)]
    points, eight = (ir.Constant(_INT16S, [n] * 16) for n in (511, 8))
    high = joined(b, [b.trunc(b.lshr(v, eight), ir.VectorType(ir.IntType(8), 16)) for v in numbers])
    indices = indices_of_16_bits(b, [b.and_(v, points) for v in numbers])
    return unpacked_row(row, IQ2_XS, indices, with_parity(b, high, 1), scales_in_nibbles(row, 66, 8))


def row_factors(tile: Tile) -> Floats:
    """d / 8 of each row."""
    return tile.halves(0) * 0.125


def _points(tile: Tile, j: int) -> Points:
    two, others = tile.word(2 + 8 * j), tile.word(6 + 8 * j)
    low, high = (two.every_other_byte(byte, others) for byte in (0, 1))
    return Points(low, seven_signs(high, 1), high=[BitOfEach(high, 0, 8)])
