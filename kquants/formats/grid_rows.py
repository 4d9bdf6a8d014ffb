"""Formats of grids row by row (`kquants.formats.weight_row`): points are loaded from memory by their indices.

Indices of eight bits are read where they lie in W. Longer ones, and signs, are put together for a whole super-block at
once, and the indices then read from the stack. It needs AVX2.
"""

from dataclasses import dataclass

from llvmlite import ir

from kquants.formats.grids.grid import Grid
from kquants.formats.packed_bytes import Value, Words
from kquants.formats.weight_row import RowBlock, UnpackedRow, WeightRow
from kquants.simd import RowTable, are_negative, at, joined, load, on_stack, shuffle

_BYTE, _INT16, _LONG = ir.IntType(8), ir.IntType(16), ir.IntType(64)
_INT16S = ir.VectorType(_INT16, 16)


@dataclass(frozen=True)
class Indices:
    """Indices of points in memory: those of block j from byte j · `block_bytes` on, each a `kind`."""

    address: Value
    block_bytes: int
    kind: ir.IntType = _BYTE

    def of_block(self, b: ir.IRBuilder, block: int, count: int) -> list[Value]:
        """The `count` indices of a block, int64."""
        places = (self.block_bytes * block + self.kind.width // 8 * i for i in range(count))
        return [b.zext(load(b, at(b, self.address, place), self.kind), _LONG) for place in places]


def unpacked_row(row: WeightRow, grid: Grid, indices: Indices, signs: Value, scales: Value) -> UnpackedRow:
    """A super-block whose weights are points of a grid with signs, and scaled by 2s + 1.

    `signs` are 32 bytes, four of each block: bit i of them is set where weight i is negative. `scales` are 16 int16 s,
    of the first halves of the blocks, then of their second halves.
    """
    b, count = row.b, 32 // grid.weights
    table = RowTable(b, grid.words(), grid.weights // 4)
    blocks = (RowBlock(table.look_up(indices.of_block(b, j, count)), are_negative(b, signs, 4 * j)) for j in range(8))
    one = ir.Constant(_INT16S, [1] * 16)
    return UnpackedRow(b.or_(b.shl(scales, one), one), blocks)


def indices_of_16_bits(b: ir.IRBuilder, vectors: list[Value]) -> Indices:
    """The indices of a super-block, given as vectors of 16 int16."""
    return Indices(on_stack(b, vectors), 4 * len(vectors), _INT16)


def indices_with_high_bits(row: WeightRow, low_at: int, high_at: int, points: int, bits: int) -> Indices:
    """The indices of points whose bits 7-0 are bytes from `low_at` on, and whose other `bits` bits are those of eight
    bytes from `high_at` on."""
    b, each = row.b, 8 // bits
    up, mask = ir.Constant(_INT16S, [1 << 8 - bits * (i % each) for i in range(16)]), (1 << bits) - 1 << 8
    high, vectors = row.few_bytes(high_at, 8), []
    for first in range(0, points, 16):
        low = b.zext(row.few_bytes(low_at + first, 16), _INT16S)
        widened = [byte for i in range(16) for byte in ((first + i) // each, 8)]  # 8: a zero
        bits_above = b.bitcast(shuffle(b, high, ir.Constant(high.type, None), widened), _INT16S)
        vectors.append(b.or_(low, b.and_(b.mul(bits_above, up), ir.Constant(_INT16S, [mask] * 16))))
    return indices_of_16_bits(b, vectors)


def scales_in_words(words: Words) -> Value:
    """The scales of `unpacked_row` if bits 31-28 of eight words are those of the blocks."""
    nibbles = words.b.trunc((words >> 28).value, ir.VectorType(_INT16, 8))
    return joined(words.b, [nibbles] * 2)


def scales_in_nibbles(row: WeightRow, offset: int, count: int) -> Value:
    """The scales of `unpacked_row` if they are the nibbles of `count` bytes: of eight bytes, the low ones are those of
    the first halves of the blocks, the high ones of the second halves; of four, each byte has those of two blocks."""
    b, v = row.b, row.few_bytes(offset, count)
    four, mask = (ir.Constant(v.type, [n] * count) for n in (4, 15))
    both = shuffle(b, b.and_(v, mask), b.lshr(v, four), range(2 * count))
    order = range(16) if count == 8 else [byte + high for byte in range(4) for high in (0, 4)] * 2
    return b.zext(shuffle(b, both, both, order), _INT16S)
