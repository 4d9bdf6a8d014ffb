"""The matmul kernels of float weights: y = W x for every row x of the batch.

Sums run in 16 lanes, added up in one fixed tree. Few rows of x (decode) read the weights where they lie; for many rows
(prefill) some columns of a tile are packed at a time. Both evaluate the same expression in the same order (see
`kquants.matmul.float_ops`), so a row's result has the same bits whatever else is in the batch. Scratch holds

    sums       [STRIP][FLOAT_ROWS][16 rows of W][16]   float32, see `kquants.matmul.sums`
    w          [16] of `Tuning.float_packed_bytes`     packed weights: as they are in the file if they are float16, or
                                                       bfloat16 that is multiplied, else float32; up to FLOAT_BYTES
    x          [rows of x] of in_odd_lines             x as bfloat16, where it is that which is multiplied

Rows of W often lie a multiple of 4 KB apart. Loads of such rows hinder each other in the first-level cache (a Zen 4
multiplies at two thirds of its speed), those of packed rows do not, nor those of x, which buffers keep apart. To make
float32 of float16 beside products costs nothing; of BF16 it costs a fifth of the speed.

Op arguments: MatmulOp. One unit is one tile of 16 rows of W.
"""

from typing import Any

import numba as nb

from kquants.compiler.decorators import Vector, inline, kernel
from kquants.formats import bf16, f16, f32
from kquants.formats.rows import float_row_of
from kquants.layout import (
    FLOAT_BYTES,
    FLOAT_ROWS,
    MAX_PACKED_BYTES,
    PREPARED,
    SHARE_BYTES,
    STRIP,
    TILE_ROWS,
    in_odd_lines,
)
from kquants.matmul.float_ops import FloatOps, float_ops
from kquants.matmul.groups import matmul_op, tile_address
from kquants.matmul.sums import (
    REGISTER_LANES,
    SUMS_BYTES,
    W_ROWS,
    X_ROWS,
    load_registers,
    no_registers,
    put,
    store_registers,
    totals,
    whole_tiles,
)
from kquants.simd import (
    copy,
    load_f32x16_part,
    load_i64,
    prefetch_lines,
    splat_f32,
    store_as_bf16,
    store_f32x16,
    store_i64,
)
from kquants.threadpool.interpreter import row_count
from kquants.tuning import Tuning, tuning

assert FLOAT_ROWS % X_ROWS == 0, "register tiles reach beyond the sums"

_in_odd_lines = inline(in_odd_lines)

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


def _prefetch_ahead(tuning: Tuning, step: int) -> Any:
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


def _multiply_four(fmt: Any, ops: FloatOps, prefetch: Any) -> Any:
    """`multiply(op, row, last, x, sums)`: the sums of four rows of W, where they lie, with the row of x at an address.

    Beyond the last row of W, that one is read instead.
    """
    add, add_part = _add_four(ops.add), _add_four(ops.add_part)
    size, step, x_size = fmt.WEIGHT_BYTES, ops.step, ops.x_bytes

    @inline
    def multiply(op: int, row: int, last: int, x: int, sums: int) -> None:
        given, zero = matmul_op(op), splat_f32(nb.float32(0))
        n, row_bytes = given.columns, given.row_bytes
        whole = n & ~(step - 1)
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


def _multiply_packed(ops: FloatOps, packed_bytes: int) -> Any:
    """`multiply(rows, w_rows, columns, w, x, x_bytes, sums, more)`: the sums of products of packed columns.

    They are added to what is there where `more`. W has whole register tiles of rows. Of x the last register tile is
    read whole, too: MOST_TOKENS tells that there is room for it.
    """
    add, step, w_size, x_size = ops.add_registers, ops.step, ops.w_bytes, ops.x_bytes

    @inline
    def multiply(rows: int, w_rows: int, columns: int, w: int, x: int, x_bytes: int, sums: int, more: int) -> None:
        for t in range(0, rows, X_ROWS):
            for r in range(0, w_rows, W_ROWS):
                for lane in range(0, 16, REGISTER_LANES):
                    of_w, of_x = w + r * packed_bytes + w_size * lane, x + t * x_bytes + x_size * lane
                    place = sums + t * SUMS_BYTES + 64 * r + 4 * lane
                    registers = load_registers(place) if more else no_registers()
                    for k in range(0, columns, step):
                        registers = add(registers, of_w + w_size * k, of_x + x_size * k, x_bytes)
                    store_registers(place, registers)

    return multiply


def _x_of(ops: FloatOps) -> Any:
    """`x_of(op, rows, scratch, to)`: where the rows of x are that are multiplied, and bytes from one to the next.

    Each thread makes bfloat16 of all of them, once for an op: of 256 rows of 8,192 columns in 0.2 ms. (Of 66 rows and
    1,024 columns, each time that a strip meets them, prompts took 7 % longer with two threads.)
    """
    if ops.x_bytes == 4:
        return _x_as_it_is

    @inline
    def x_of(op: int, rows: int, scratch: int, to: int) -> tuple[int, int]:
        given = matmul_op(op)
        n, row_bytes = given.columns, _in_odd_lines(2 * given.columns)
        if load_i64(scratch + PREPARED) == 0:
            for t in range(rows):
                x = given.x + t * given.x_bytes
                for k in range(0, n, 32):
                    low, high = load_f32x16_part(x + 4 * k, n - k), load_f32x16_part(x + 4 * k + 64, n - k - 16)
                    store_as_bf16(to + t * row_bytes + 2 * k, low, high)
            store_i64(scratch + PREPARED, 1)
        return to, row_bytes

    return x_of


@inline
def _x_as_it_is(op: int, rows: int, scratch: int, to: int) -> tuple[int, int]:
    return matmul_op(op).x, matmul_op(op).x_bytes


@inline
def _tile(op: int, unit: int) -> tuple[int, int]:
    """The first row of a tile, and how many it has."""
    start = unit * TILE_ROWS
    return start, min(TILE_ROWS, matmul_op(op).rows - start)


@inline
def _put_row(op: int, t: int, unit: int, sums: int) -> None:
    """What is in the sums of a tile with row t of x to y."""
    (start, count), given = _tile(op, unit), matmul_op(op)
    put(given.y + t * given.y_bytes + 4 * start, totals(sums), count, given.accumulate)


def _pack(fmt: Any, ops: FloatOps, packed_bytes: int) -> Any:
    """`pack(op, unit, k, columns, w)`: columns of a tile from k on, zeros behind the last.

    Returns how many rows there are then, whole register tiles: the last takes the place of those beyond it.
    """
    to_f32, file_size, size, step = float_row_of(fmt), fmt.WEIGHT_BYTES, ops.w_bytes, ops.step

    @inline
    def pack(op: int, unit: int, k: int, columns: int, w: int) -> int:
        (start, count), given = _tile(op, unit), matmul_op(op)
        w_rows = whole_tiles(count, W_ROWS)
        for i in range(w_rows):
            to, row = w + i * packed_bytes, given.w + (start + min(i, count - 1)) * given.row_bytes
            store_f32x16(to + size * (columns & ~(step - 1)), splat_f32(nb.float32(0)))
            if size == 2:
                copy(to, row + 2 * k, 2 * columns)
            else:
                to_f32(row + file_size * k, columns, to)
        return w_rows

    return pack


def _define(name: str, fmt: Any, tuning: Tuning) -> None:
    """Register the kernel of a format."""
    packed_bytes, few = tuning.float_packed_bytes, tuning.decode_rows
    assert packed_bytes <= MAX_PACKED_BYTES, "scratch has no room for packed rows"
    ops = float_ops(fmt, packed_bytes)
    multiply_four = _multiply_four(fmt, ops, _prefetch_ahead(tuning, ops.step))
    multiply_packed, x_of, pack = _multiply_packed(ops, packed_bytes), _x_of(ops), _pack(fmt, ops, packed_bytes)
    most, x_size = packed_bytes // ops.w_bytes, ops.x_bytes

    @inline
    def decode(op: int, rows: int, unit: int, x: int, x_bytes: int, sums: int) -> None:
        (_, count), row_bytes, w = _tile(op, unit), matmul_op(op).row_bytes, tile_address(op, unit)
        for r in range(0, count, 4):
            for t in range(rows):
                place = sums + t * SUMS_BYTES + 64 * r
                multiply_four(op, w + r * row_bytes, w + (count - 1) * row_bytes, x + t * x_bytes, place)
        for t in range(rows):
            _put_row(op, t, unit, sums + t * SUMS_BYTES)

    @inline
    def prefill(op: int, t: int, rows: int, unit: int, tiles: int, x: int, x_bytes: int, sums: int) -> None:
        """Tiles times rows t … t + rows - 1 of x; the first of these is at `x`."""
        n, tile_bytes = matmul_op(op).columns, FLOAT_ROWS * SUMS_BYTES
        w = sums + STRIP * tile_bytes
        for k in range(0, n, most):
            columns = min(most, n - k)
            for tile in range(tiles):
                w_rows = pack(op, unit + tile, k, columns, w)
                multiply_packed(rows, w_rows, columns, w, x + x_size * k, x_bytes, sums + tile * tile_bytes, k)
        for tile in range(tiles):
            for i in range(rows):
                _put_row(op, t + i, unit + tile, sums + tile * tile_bytes + i * SUMS_BYTES)

    @kernel(f"matmul_{name}")
    def matmul(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        rows, sums = row_count(op, batch), scratch + SHARE_BYTES + 63 & ~63
        last = min(last, (matmul_op(op).rows + TILE_ROWS - 1) // TILE_ROWS)  # beyond W there is nothing to do
        x, x_bytes = x_of(op, rows, scratch, sums + FLOAT_BYTES)
        for unit in range(first, last, 1 if rows <= few else STRIP):
            if rows <= few:
                decode(op, rows, unit, x, x_bytes, sums)
            else:
                for t in range(0, rows, FLOAT_ROWS):
                    some, tiles = min(FLOAT_ROWS, rows - t), min(STRIP, last - unit)
                    prefill(op, t, some, unit, tiles, x + t * x_bytes, x_bytes, sums)


_define("f32", f32, tuning())
_define("f16", f16, tuning())
_define("bf16", bf16, tuning())
