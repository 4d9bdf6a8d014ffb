"""Rounding of a block of each row, column by column, where later columns make good for the errors of earlier ones.

The values of a column are adjacent, so that a lane has a row.
"""

from kquants.compiler.decorators import Vector, inline, kernel
from kquants.encoders.lane_ops import all_lanes, choose, nearest, quotient
from kquants.encoders.vectors import stack_buffer
from kquants.simd import (
    add_f32,
    fma_f32,
    load_f32,
    load_f32x16,
    mul_f32,
    splat_f32,
    store_f32x16,
    store_f32x16_as_i8,
    sub_f32,
)

MOST_COLUMNS = 256
"""The largest block of a format."""

_take_errors = stack_buffer(64 * MOST_COLUMNS)


@inline
def _with_errors(target: Vector, errors: int, passed_on: int, n: int) -> Vector:
    """The target of a column, and the errors of the n columns before it, each times its share."""
    a, b, c, d = target, all_lanes(0), all_lanes(0), all_lanes(0)
    whole = n & ~3
    for i in range(0, whole, 4):
        share, error = passed_on + 4 * i, errors + 64 * i
        a = fma_f32(splat_f32(load_f32(share)), load_f32x16(error), a)
        b = fma_f32(splat_f32(load_f32(share + 4)), load_f32x16(error + 64), b)
        c = fma_f32(splat_f32(load_f32(share + 8)), load_f32x16(error + 128), c)
        d = fma_f32(splat_f32(load_f32(share + 12)), load_f32x16(error + 192), d)
    for i in range(whole, n):
        a = fma_f32(splat_f32(load_f32(passed_on + 4 * i)), load_f32x16(errors + 64 * i), a)
    return add_f32(add_f32(a, b), add_f32(c, d))


@inline
def _nearest_level(x: Vector, levels: int, count: int, is_even: int) -> tuple[Vector, Vector]:
    """(code, level) of the level nearest to x; the levels ascend, or with `is_even` are one apart."""
    if is_even != 0:
        first = splat_f32(load_f32(levels))
        code = nearest(sub_f32(x, first), 0, count - 1)
        return code, add_f32(code, first)
    code, below = all_lanes(0), splat_f32(load_f32(levels))
    level = below
    for i in range(1, count):
        above = splat_f32(load_f32(levels + 4 * i))
        middle = mul_f32(add_f32(below, above), all_lanes(0.5))
        code, level = choose(middle, x, all_lanes(i), code), choose(middle, x, above, level)
        below = above
    return code, level


@kernel("round_columns", arguments=11)
def round_columns(
    weights: int,
    target: int,
    scales: int,
    shifts: int,
    rows: int,
    columns: int,
    passed_on: int,
    levels: int,
    level_count: int,
    is_even: int,
    result: int,
) -> None:
    """Round weights to `scale · level + shift`: float32 [columns, rows], and so are the first four arrays.

    `rows` is a multiple of 16, `columns` at most MOST_COLUMNS. `passed_on` is float32 [columns, columns]: row j has the
    shares of the errors of the columns before j that are added to the target of column j. `result` has float32
    [columns, rows], the weights less their rounded values, followed by int8 [columns, rows], the codes less 128.
    """
    errors, codes = _take_errors(), result + 4 * rows * columns
    for first in range(0, rows, 16):
        for j in range(columns):
            k = j * rows + first
            wanted = _with_errors(load_f32x16(target + 4 * k), errors, passed_on + 4 * columns * j, j)
            scale, shift = load_f32x16(scales + 4 * k), load_f32x16(shifts + 4 * k)
            x = quotient(sub_f32(wanted, shift), scale)
            code, level = _nearest_level(x, levels, level_count, is_even)
            error = sub_f32(load_f32x16(weights + 4 * k), add_f32(mul_f32(scale, level), shift))
            store_f32x16(errors + 64 * j, error)
            store_f32x16(result + 4 * k, error)
            store_f32x16_as_i8(codes + k, sub_f32(code, all_lanes(128)))
