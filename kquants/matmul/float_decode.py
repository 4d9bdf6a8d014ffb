"""A few rows of x times float weights where they lie: four rows of W at a time, with prefetches of rows to come."""

from typing import Any

import numba as nb

from kquants.compiler.decorators import Vector, inline
from kquants.matmul.float_ops import FloatOps
from kquants.simd import prefetch_lines, splat_f32, store_f32x16
from kquants.tuning import Tuning

Four = tuple[Vector, Vector, Vector, Vector]


def _add_four(add: Any) -> Any:
    """`add(sums, rows, at, x, …)`: four sums plus the products of four rows of W with x."""

    @inline
    def add_four(sums: Four, rows: tuple[int, int, int, int], at: int, x: int, *count: int) -> Four:
        return (
            add(sums[0], rows[0] + at, x, *count),
            add(sums[1], rows[1] + at, x, *count),
            add(sums[2], rows[2] + at, x, *count),
            add(sums[3], rows[3] + at, x, *count),
        )

    return add_four


def prefetch_ahead(tuning: Tuning, step: int) -> Any:
    """`prefetch(row, at, row_bytes)`: prefetch what some of the next rows have where `step` columns begin.

    That is, `at` bytes behind the begin of a row. `Tuning.float_prefetch_row` and the two behind it tell of which rows.
    """
    ahead, rows, repeats = (
        tuning.float_prefetch_row,
        tuning.float_prefetch_rows,
        tuning.float_prefetch_repeats * step // 16,
    )

    @inline
    def often(row: int, at: int, row_bytes: int) -> None:
        for _ in range(repeats):
            prefetch_lines(row + at + ahead * row_bytes, rows, row_bytes)

    @inline
    def once(row: int, at: int, row_bytes: int) -> None:
        if at % 64 == 0:
            prefetch_lines(row + at + ahead * row_bytes, rows, row_bytes)

    return often if repeats else once


def multiply_four_of(fmt: Any, ops: FloatOps, prefetch: Any) -> Any:
    """`multiply(n, row_bytes, row, last, x, sums)`: the sums of four rows of W, of n columns, with the row of x at x.

    Beyond the last row of W, that one is read instead.
    """
    add, add_part = _add_four(ops.add), _add_four(ops.add_part)
    size, step, x_size = fmt.WEIGHT_BYTES, ops.step, ops.x_bytes

    @inline
    def multiply(n: int, row_bytes: int, row: int, last: int, x: int, sums: int) -> None:
        zero, whole = splat_f32(nb.float32(0)), n & ~(step - 1)
        rows = row, min(row + row_bytes, last), min(row + 2 * row_bytes, last), min(row + 3 * row_bytes, last)
        y = zero, zero, zero, zero  # together, as each would wait for its own last sum
        for k in range(0, whole, step):
            prefetch(row, size * k, row_bytes)
            y = add(y, rows, size * k, x + x_size * k)
        if whole < n:
            y = add_part(y, rows, size * whole, x + x_size * whole, n - whole)
        for i in range(4):
            store_f32x16(sums + 64 * i, y[i])

    return multiply
