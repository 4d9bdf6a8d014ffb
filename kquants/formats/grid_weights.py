"""Weights that are points of a grid, with signs: looked up for the rows of a tile."""

from collections.abc import Iterator, Sequence

from llvmlite import ir

from kquants.formats.grid_bytes import weights_by_bytes
from kquants.formats.grid_points import BitOfEach, Points
from kquants.formats.grids.grid import Grid
from kquants.formats.packed_bytes import PackedBytes, Value, Words
from kquants.simd import HAS_BYTE_PERMUTATIONS, I8_64, are_set, look_up_words, words_in_memory
from kquants.simd.dot4 import SIGNED_OFFSET

ODD_OFFSET = 16
"""What is added to weights of odd levels. They are unsigned bytes of five bits then."""


def grid_weights(grid: Grid, points: Sequence[Points]) -> Iterator[PackedBytes]:
    """The weights: of each `points` 16 bytes of each row, or twice 16 where a point has eight.

    To odd levels ODD_OFFSET is added, to others SIGNED_OFFSET. Points of two blocks should come together: they share
    what is loaded of the tables. (Measured on Zen 4 with AVX-512, weights in the caches: decode is 4 to 9 % faster than
    block by block. Four blocks gain 2 % more, or lose 10.)
    """
    weights = weights_by_bytes if HAS_BYTE_PERMUTATIONS else _weights_by_words
    return (PackedBytes(points[0].low.b, vectors) for vectors in weights(grid, points))


def _weights_by_words(grid: Grid, points: Sequence[Points]) -> Iterator[list[Value]]:
    """The same as vectors: points are loaded from memory as words of four magnitudes, and negated where signs are
    set."""
    b = points[0].low.b
    table = words_in_memory(b, f"grid_{grid.weights}_{len(grid.codes)}", _words(grid))
    for of in points:
        found = []
        for i in range(4):
            index = _index(of, i).value
            for k in range(grid.weights // 4):
                words = look_up_words(b, table, index, stride=grid.weights // 4, first=k)
                first_sign = of.first_sign + grid.weights * i + 4 * k
                found.append(_with_signs(b, grid, b.bitcast(words, I8_64.vector), of.signs, first_sign))
        yield from (found[k : k + 4] for k in range(0, len(found), 4))


def _words(grid: Grid) -> list[int]:
    offset = ODD_OFFSET if grid.is_odd else SIGNED_OFFSET
    magnitudes = [magnitude + offset for point in grid.magnitudes for magnitude in point]
    return [int.from_bytes(magnitudes[i : i + 4], "little") for i in range(0, len(magnitudes), 4)]


def _index(of: Points, i: int) -> Words:
    """Index i of each row."""
    index = of.low >> 8 * i & 255
    for bit, source in enumerate(of.high, 8):
        index = index | _moved(source, i, bit) & 1 << bit
    return index


def _moved(source: BitOfEach, i: int, to: int) -> Words:
    """The words with the bit of index i at bit `to`."""
    distance = to - (source.first + source.step * i)
    return source.words << distance if distance > 0 else source.words >> -distance


def _with_signs(b: ir.IRBuilder, grid: Grid, v: Value, signs: Words, first: int) -> Value:
    """The bytes, negated where bits first … first + 3 of each row's signs are set."""
    negative = b.xor(v, ir.Constant(v.type, [30] * 64)) if grid.is_odd else b.neg(v)  # 16 + n, 16 - n: bits 4-1 differ
    return b.select(are_set(b, b.bitcast(signs.value, v.type), first), negative, v)
