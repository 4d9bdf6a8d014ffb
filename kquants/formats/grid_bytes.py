"""Points of a grid by permutations of bytes (`kquants.simd.tables`): 64 of them, four of each row, at once.

A point is two bytes, in a table each: one for either half of its weights, with a code for each. Codes of four weights
have four bits: three for the level, under one for the sign. Codes of eight have two, and the sign comes from elsewhere.
Codes go to bytes of their own, and there a table of 8 or 16 has the weight.

Of odd levels 2 · code + 1, whose offset is 16, no such table is needed. Their codes have a fourth bit, which is set. A
negative sign complements all four: u = 2 · code + 1 then is 16 plus the level, or 16 less it.
"""

from collections.abc import Iterator, Sequence

from llvmlite import ir

from kquants.formats.grid_points import BitOfEach, Points
from kquants.formats.grids.grid import Grid
from kquants.formats.packed_bytes import Value, Words
from kquants.simd import I8_64, arrange_bits, bits_from, in_lanes, look_up_64, look_up_long, shuffle

_V8 = I8_64.vector


def weights_by_bytes(grid: Grid, points: Sequence[Points], offset: int) -> Iterator[list[Value]]:
    """What `grid_weights` yields, as vectors."""
    assert not grid.is_odd or offset == 16, "odd levels are computed with an offset of 16"
    b = points[0].low.b
    low = [_bytes(of.low) for of in points]
    # Permutations heed the lower seven bits of the index.
    high = [
        [b.icmp_signed("<", v, ir.Constant(_V8, None)), *(_mask(bits) for bits in of.high)]
        for v, of in zip(low, points, strict=True)
    ]
    halves = [look_up_long(b, table, low, high) for table in _tables(grid)]
    for of, *two in zip(points, *halves, strict=True):
        if grid.weights == 4:
            yield _four_weights(b, grid, two, of, offset)
        else:
            yield from (_eight_weights(b, grid, two, of, first, offset) for first in (0, 2))


def _tables(grid: Grid) -> list[list[int]]:
    """Of each point the byte for the first half of its weights, and for the second."""
    half, bits, more = grid.weights // 2, 16 // grid.weights, 8 if grid.is_odd else 0
    return [
        [sum(code + more << bits * k for k, code in enumerate(point[first : first + half])) for point in grid.codes]
        for first in (0, half)
    ]


def _bytes(words: Words) -> Value:
    return words.b.bitcast(words.value, _V8)


def _mask(bits: BitOfEach) -> Value:
    """Whether the bit is set: a mask of 64 bytes."""
    b, one = bits.words.b, ir.Constant(_V8, [1] * 64)
    v = bits_from(b, _bytes(bits.words), in_lanes(*(bits.first + bits.step * i for i in range(4))))
    return b.icmp_unsigned("!=", b.and_(v, one), ir.Constant(_V8, None))


def _four_weights(b: ir.IRBuilder, grid: Grid, halves: list[Value], of: Points, offset: int) -> list[Value]:
    """The weights of four points of four."""
    signs = bits_from(b, _bytes(of.signs), in_lanes(*(of.first_sign + 4 * i for i in range(4))))
    for half in (0, 1):
        first, second = 2 * half, 2 * half + 1
        if grid.is_odd:
            halves[half] = b.xor(halves[half], arrange_bits(b, signs, [first] * 4 + [second] * 4))
        else:
            order = [None, None, None, first, None, None, None, second]
            halves[half] = b.or_(halves[half], arrange_bits(b, signs, order))
    found = []
    for i in (0, 2):
        # The halves of two points side by side: a shift then moves all codes of a point.
        two = shuffle(
            b, halves[0], halves[1], [4 * row + byte for row in range(16) for byte in (i, i + 64, i + 1, i + 65)]
        )
        found += [_of_codes(b, grid, two, 16 * k, offset) for k in (0, 1)]
    return found


def _of_codes(b: ir.IRBuilder, grid: Grid, v: Value, first: int, offset: int) -> Value:
    """The weights of four codes of four bits, which begin at a bit of each lane."""
    if not grid.is_odd:
        return look_up_64(b, _with_negatives(grid, 8, offset), bits_from(b, v, in_lanes(*range(first, first + 16, 4))))
    up_by_one = bits_from(b, v, in_lanes(*range(first - 1, first + 15, 4)))
    return b.or_(b.and_(up_by_one, ir.Constant(_V8, [30] * 64)), ir.Constant(_V8, [1] * 64))


def _eight_weights(
    b: ir.IRBuilder, grid: Grid, halves: list[Value], of: Points, first: int, offset: int
) -> list[Value]:
    """The weights of two points of eight, of which `first` is one."""
    table = _with_negatives(grid, 4, offset)
    return [
        _of_codes_and_signs(b, halves[half], 8 * i, _bytes(of.signs), of.first_sign + 8 * i + 4 * half, table)
        for i in (first, first + 1)
        for half in (0, 1)
    ]


def _of_codes_and_signs(
    b: ir.IRBuilder, v: Value, first: int, signs: Value, first_sign: int, table: list[int]
) -> Value:
    """What the table has for four codes of two bits, and four signs, which begin at a bit of each lane."""
    codes = bits_from(b, v, in_lanes(*range(first, first + 8, 2)))
    above = bits_from(b, signs, in_lanes(*range(first_sign - 2, first_sign + 2)))
    is_sign = ir.Constant(_V8, [4] * 64)
    index = b.or_(b.and_(codes, b.not_(is_sign)), b.and_(above, is_sign))
    return look_up_64(b, table, index)


def _with_negatives(grid: Grid, sign: int, offset: int) -> list[int]:
    """The levels and, from place `sign` on, their negatives, plus the offset."""
    levels = [*grid.levels, *[0] * (sign - len(grid.levels))]
    return [offset + level for level in levels] + [offset - level for level in levels]
