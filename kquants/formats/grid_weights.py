"""Weights that are points of a grid with signs: look-ups for the rows of a tile, and the scales beside them.

An index has 8, 9 or 10 bits, and every number of so many bits is that of a point: no file reaches beyond the table.

With permutations of bytes (`kquants.simd.tables`) 64 points are looked up at once: four of each row. A point is 16 bits
in two byte tables, one for each half of its weights: of each weight the number of its level, in 4 or 2 bits. They go to
bytes of their own, beside the sign, and are looked up once more there. Other CPUs load points from memory as words of
four magnitudes, and negate bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from llvmlite import ir

from kquants.formats.grids.grid import Grid
from kquants.formats.packed_bytes import PackedBytes, Value, Words
from kquants.simd import (
    HAS_BYTE_PERMUTATIONS,
    I8_64,
    I32,
    arrange_bits,
    bits_from,
    look_up_64,
    look_up_long,
    look_up_words,
    negate_where,
    with_parity,
    words_in_memory,
)
from kquants.simd.dot4 import SIGNED_OFFSET

_ROWS = range(16)


@dataclass(frozen=True)
class BitOfEach:
    """One bit of each of four indices: that of index i is bit first + step · i of a row's word."""

    words: Words
    first: int
    step: int = 1


@dataclass(frozen=True)
class Indices:
    """Four indices of each row: a byte of `low` has bits 7-0 of one, `high` has bit 8, and bit 9 if there is one."""

    low: Words
    high: Sequence[BitOfEach] = field(default=())


def grid_weights(grid: Grid, indices: Indices, signs: Words, first: int = 0) -> list[PackedBytes]:
    """The weights of four points of each row, plus SIGNED_OFFSET: 16 bytes, twice for points of 8.

    The sign of weight i is bit first + i of `signs`.
    """
    points = _points_by_bytes if HAS_BYTE_PERMUTATIONS else _points_by_words
    found = points(grid, indices, signs, first)
    return [PackedBytes(signs.b, found[i : i + 4]) for i in range(0, len(found), 4)]


def signs_with_parity(words: Words) -> Words:
    """The signs of 32 weights of each row: bits 7k … 7k + 6 of a word are those of seven, their parity that of an
    eighth."""
    if HAS_BYTE_PERMUTATIONS:
        v = words.b.bitcast(words.value, I8_64.vector)
        v = bits_from(words.b, v, [32 * (r % 2) + 7 * k for r in _ROWS for k in range(4)])
        return seven_signs(Words(words.b, words.b.bitcast(v, I32.vector)), 0)
    apart = words & 0x7F
    for k in range(1, 4):
        apart = apart | words << k & 0x7F << 8 * k
    return seven_signs(apart, 0)


def seven_signs(words: Words, first: int) -> Words:
    """Bits first … first + 6 of each byte, and their parity as bit 7; `first` is 0 or 1."""
    v = with_parity(words.b, words.b.bitcast(words.value, I8_64.vector), first)
    return Words(words.b, words.b.bitcast(v, I32.vector))


def odd_scales(two: Words) -> Words:
    """2s + 1 of both halves of each row's word."""
    return two << 1 | 0x00010001


def scales_of_nibbles(words: Words, byte: int) -> Words:
    """2s + 1 of the low and of the high nibble of a byte, as two int16."""
    bits = words >> 8 * byte
    return odd_scales(bits & 15 | (bits << 12 & 0xF0000))


def _points_by_bytes(grid: Grid, indices: Indices, signs: Words, first: int) -> list[Value]:
    b = signs.b
    low, sign_bits = (b.bitcast(words.value, I8_64.vector) for words in (indices.low, signs))
    high = [b.icmp_signed("<", low, ir.Constant(low.type, None)), *(_mask(bits) for bits in indices.high)]
    halves = [look_up_long(b, table, low, high) for table in _byte_tables(grid)]
    if grid.weights == 8:
        return [_of_two_bits(b, grid, halves[h], sign_bits, first, i, h) for i in range(4) for h in (0, 1)]
    # There is room for the signs above the three bits of each weight.
    of_point = bits_from(b, sign_bits, [32 * (r % 2) + first + 4 * i for r in _ROWS for i in range(4)])
    for h, table in enumerate(halves):
        bits = [None, None, None, 2 * h, None, None, None, 2 * h + 1]
        halves[h] = b.or_(table, arrange_bits(b, of_point, bits))
    return [_of_four_bits(b, grid, halves, i) for i in range(4)]


def _mask(bits: BitOfEach) -> Value:
    """Whether the bit is set: a mask of 64 bytes."""
    b = bits.words.b
    words = b.bitcast(bits.words.value, I8_64.vector)
    v = bits_from(b, words, [32 * (r % 2) + bits.first + bits.step * i for r in _ROWS for i in range(4)])
    one = ir.Constant(v.type, [1] * 64)
    return b.icmp_unsigned("!=", b.and_(v, one), ir.Constant(v.type, None))


def _byte_tables(grid: Grid) -> list[list[int]]:
    """Bytes with the levels of the first half of each point's weights, and of the second."""
    half, bits = grid.weights // 2, 16 // grid.weights
    return [
        [sum(code << bits * k for k, code in enumerate(point[start : start + half])) for point in grid.codes]
        for start in (0, half)
    ]


def _of_four_bits(b: ir.IRBuilder, grid: Grid, halves: list[Value], i: int) -> Value:
    """Point i of each row: two weights of each half, with the sign as highest of four bits."""
    places = [32 * (r % 2) + 8 * i + 4 * (k % 2) for r in _ROWS for k in range(4)]
    low, high = (bits_from(b, v, places) for v in halves)
    is_high = ir.Constant(ir.VectorType(ir.IntType(1), 64), [0, 0, 1, 1] * 16)
    return look_up_64(b, _signed_levels(grid, 8), b.select(is_high, high, low))


def _of_two_bits(b: ir.IRBuilder, grid: Grid, half: Value, signs: Value, first: int, i: int, h: int) -> Value:
    """Four weights of point i of each row, half h, with the sign above their two bits."""
    codes = bits_from(b, half, [32 * (r % 2) + 8 * i + 2 * k for r in _ROWS for k in range(4)])
    sign = bits_from(b, signs, [32 * (r % 2) + first + 8 * i + 4 * h + k - 2 for r in _ROWS for k in range(4)])
    is_sign = ir.Constant(sign.type, [4] * 64)
    index = b.or_(b.and_(codes, b.not_(is_sign)), b.and_(sign, is_sign))
    return look_up_64(b, _signed_levels(grid, 4), index)


def _signed_levels(grid: Grid, sign: int) -> list[int]:
    """The levels, and from place `sign` on their negatives, plus SIGNED_OFFSET."""
    levels = [*grid.levels, *[0] * (sign - len(grid.levels))]
    return [s * level + SIGNED_OFFSET for s in (1, -1) for level in levels]


def _points_by_words(grid: Grid, indices: Indices, signs: Words, first: int) -> list[Value]:
    b, per_point = signs.b, grid.weights // 4
    magnitudes = [magnitude + SIGNED_OFFSET for point in grid.magnitudes for magnitude in point]
    words = [int.from_bytes(magnitudes[i : i + 4], "little") for i in range(0, len(magnitudes), 4)]
    table = words_in_memory(b, f"grid_{grid.weights}_{len(grid.numbers)}", words)
    found = []
    for i in range(4):
        index = indices.low >> 8 * i & 255
        for bit, source in enumerate(indices.high, 8):
            index = index | source.words.moved(source.first + source.step * i, bit) & 1 << bit
        for h in range(per_point):
            place = b.mul(index.value, ir.Constant(I32.vector, [per_point] * 16))
            word = look_up_words(b, table, b.add(place, ir.Constant(I32.vector, [h] * 16)))
            v = b.bitcast(word, I8_64.vector)
            of_signs = b.bitcast(signs.value, I8_64.vector)
            found.append(negate_where(b, v, of_signs, first + grid.weights * i + 4 * h))
    return found
