"""Q6_K: super-blocks of 256 weights in 210 bytes: sixteen blocks of 16 with an int8 scale each,
w = d · scale · (q - 32), q in 0 … 63 (ggml: block_q6_K).

    byte  0                    128               192                    208     210
          [ ql: q, bits 3-0    | qh: q, bits 5-4 | scales: 16 × int8    | d f16 ]

    each half h = 0, 1 of the super-block has 64 bytes of ql, 32 of qh, and four blocks j of 32 weights:

        q of block j, weight l   low bits    ql[64h + 32 (j mod 2) + l]   low nibble for j < 2, else high
                                 high bits   qh[32h + l]                  bits 2j+1, 2j
        scales of block j        8h + 2j for l < 16, 8h + 2j + 1 for the rest
"""

from collections.abc import Iterator

from llvmlite import ir

from kquants.formats.packed_bytes import Floats, PackedBytes
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, SuperBlockScales, UnitScales, Unpacked
from kquants.formats.weight_row import RowBlock, UnpackedRow, WeightRow
from kquants.simd import shuffle

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 210, 8, 2
BITS, OFFSET = 6, 32

_SCALES_AT, _D_AT = 192, 208


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = q."""
    scales = tile.packed(_SCALES_AT)
    for h in range(2):
        for half in range(2):
            high = tile.packed(128 + 32 * h + 16 * half)
            for j in (0, 2, 1, 3):  # both nibbles of a column, then the next: two take more registers than there are
                low = tile.packed(64 * h + 32 * (j % 2) + 16 * half)
                yield HalfBlock(4 * h + j, half, _u(low, high, j))
        for j in range(4 * h, 4 * h + 4):
            yield UnitScales(j, scales.word(j // 2).signed_int16(2 * (j % 2)))
    yield SuperBlockScales(tile.half(_D_AT))


def unpack_row(row: WeightRow) -> UnpackedRow:
    """What a super-block of a row holds: u = q."""
    scales = row.few_bytes(_SCALES_AT, 16)
    halves_apart = shuffle(row.b, scales, scales, [*range(0, 16, 2), *range(1, 16, 2)])
    blocks = (RowBlock(*u.vectors) for half in range(2) for u in _blocks_of_half(row, half))
    return UnpackedRow(row.b.sext(halves_apart, ir.VectorType(ir.IntType(16), 16)), blocks, OFFSET)


def row_factors(tile: Tile) -> Floats:
    """d of each row."""
    return tile.halves(_D_AT)


def _blocks_of_half(row: WeightRow, half: int) -> Iterator[PackedBytes]:
    """u of blocks 0, 1, 2 and 3 in half a super-block of one row."""
    low = [row.bytes(64 * half + 32 * i) for i in range(2)]
    high = row.bytes(128 + 32 * half)
    for j in range(4):
        yield _u(low[j % 2], high, j)


def _u(low: PackedBytes, high: PackedBytes, j: int) -> PackedBytes:
    return low.bits(4 * (j // 2), 4) | high.bits(2 * j, 2, to=4)
