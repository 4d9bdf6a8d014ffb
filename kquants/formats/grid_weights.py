"""Weights that are points of a grid, with signs: looked up for the rows of a tile."""

from collections.abc import Iterator, Sequence

from llvmlite import ir

from kquants.formats.grid_bytes import weights_by_bytes
from kquants.formats.grid_points import Points
from kquants.formats.grids.grid import Grid
from kquants.formats.packed_bytes import PackedBytes, Value, Words
from kquants.simd import HAS_BYTE_PERMUTATIONS, I8_64, WordTable, are_set
from kquants.simd.dot4 import SIGNED_OFFSET


def grid_weights(grid: Grid, points: Sequence[Points], offset: int = SIGNED_OFFSET) -> Iterator[PackedBytes]:
    """The weights plus an offset: of each `points` 16 bytes of each row, or twice 16 where a point has eight.

    Points of two blocks should come together: they share what is loaded of the tables. (Measured on Zen 4 with AVX-512,
    weights in the caches: decode is 4 to 9 % faster than block by block. Four blocks gain 2 % more, or lose 10.)
    """
    weights = weights_by_bytes if HAS_BYTE_PERMUTATIONS else _weights_by_words
    return (PackedBytes(points[0].low.b, vectors) for vectors in weights(grid, points, offset))


def _weights_by_words(grid: Grid, points: Sequence[Points], offset: int) -> Iterator[list[Value]]:
    """The same as vectors: points are loaded from memory as words of four magnitudes, and negated where signs are
    set."""
    b, count = points[0].low.b, grid.weights // 4
    table = WordTable(b, grid.words(offset), count)
    for of in points:
        found = [
            _with_signs(b, b.bitcast(words, I8_64.vector), offset, of.signs, of.first_sign + grid.weights * i + 4 * k)
            for i in range(4)
            for k, words in enumerate(table.look_up(_index(of, i).value))
        ]
        yield from (found[k : k + 4] for k in range(0, len(found), 4))


def _index(of: Points, i: int) -> Words:
    """Index i of each row."""
    index = of.low >> 8 * i & 255
    for bit, source in enumerate(of.high, 8):
        index = index | source.words.moved(source.first + source.step * i, bit) & 1 << bit
    return index


def _with_signs(b: ir.IRBuilder, v: Value, offset: int, signs: Words, first: int) -> Value:
    """The bytes offset + n, those for which bits first … first + 3 of each row's signs are set as offset - n."""
    negative = b.sub(ir.Constant(v.type, [2 * offset % 256] * 64), v)
    return b.select(are_set(b, b.bitcast(signs.value, v.type), first), negative, v)
