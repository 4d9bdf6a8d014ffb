"""Matrix products of float weights: y = W x for every row x of the batch.

Sums run in 16 lanes, added up in one fixed tree. Few rows of x (decode) read the weights where they lie; for many rows
(prefill) some columns at a time, of x and then of a tile of W, are brought together in scratch. Both evaluate the same
expression in the same order, so a row's result has the same bits whatever else is in the batch. Scratch then holds

    sums       [STRIP][FLOAT_ROWS] of those of a row of x, see `kquants.sums`
    x          [FLOAT_ROWS][columns]   float32
    w          [16][columns]           as in the file

Op arguments: W, rows of W, columns, bytes per row of W, x, bytes per row of x, y, bytes per row of y, 1 to add to y
instead of writing it, and the record of the product that follows, or 0 (`kquants.tiled` uses it). One unit is one
tile of 16 rows of W.
"""

from typing import Any

import numba as nb

from kquants.decorators import Vector, inline, kernel
from kquants.formats import bf16, f16, f32
from kquants.interpreter import argument, row_count
from kquants.layout import DECODE_ROWS, FLOAT_BYTES, FLOAT_ROWS, SHARE_BYTES, STRIP, TILE_ROWS
from kquants.requests import fetch_lines
from kquants.simd import copy, fma_f32, load_f32x16, splat_f32, store_f32x16
from kquants.sums import (
    LANES,
    SUMS_BYTES,
    W_BYTES,
    W_ROWS,
    X_ROWS,
    add_block_of,
    clear,
    columns_of,
    load_block,
    put,
    store_block,
    totals,
    x_bytes_of,
)

assert FLOAT_ROWS % X_ROWS == 0, "blocks reach beyond the sums"

Four = tuple[Vector, Vector, Vector, Vector]


def _add_four(load: Any) -> Any:
    """`add(sums, rows, at, x, …)`: four sums plus the products with x of what `load` gives of each row."""

    @inline
    def add(sums: Four, rows: tuple[int, int, int, int], at: int, x: Vector, *left: int) -> Four:
        return (
            fma_f32(load(rows[0] + at, *left), x, sums[0]),
            fma_f32(load(rows[1] + at, *left), x, sums[1]),
            fma_f32(load(rows[2] + at, *left), x, sums[2]),
            fma_f32(load(rows[3] + at, *left), x, sums[3]),
        )

    return add


def _multiply_rows(fmt: Any) -> Any:
    """`multiply(op, x, start, stop, sums)`: the sums of rows of W, where they lie, with the row of x at an address.

    The memory is asked for what lies eight rows further on: without, a Zen 4 with AVX2 alone decodes F16 at 0.75 of the
    speed, and as fast with four rows as with eight.
    """
    add, add_part, size = _add_four(fmt.lanes), _add_four(fmt.lanes_part), fmt.WEIGHT_BYTES

    @inline
    def multiply(op: int, x: int, start: int, stop: int, sums: int) -> None:
        w, n, row_bytes = argument(op, 0), argument(op, 2), argument(op, 3)
        zero, whole, last = splat_f32(nb.float32(0)), n & ~15, w + (stop - 1) * row_bytes
        for r in range(start, stop, 4):  # together, as each would wait for its own last sum
            row = w + r * row_bytes
            rows = row, min(row + row_bytes, last), min(row + 2 * row_bytes, last), min(row + 3 * row_bytes, last)
            y = zero, zero, zero, zero
            for k in range(0, whole, 16):
                fetch_lines(row + size * k + 8 * row_bytes, 4, row_bytes)
                y = add(y, rows, size * k, load_f32x16(x + 4 * k))
            if whole < n:
                y = add_part(y, rows, size * whole, load_f32x16(x + 4 * whole), n - whole)
            for i in range(4):
                store_f32x16(sums + 64 * (r - start + i), y[i])

    return multiply


def _multiply_blocks(fmt: Any) -> Any:
    """`multiply(rows, columns, w, x, sums)`: add products of 16 rows of W with rows of x, both of `kquants.sums`."""
    add, size, x_bytes = add_block_of(fmt), fmt.WEIGHT_BYTES, x_bytes_of(fmt)

    @inline
    def multiply(rows: int, columns: int, w: int, x: int, sums: int) -> None:
        for t in range(0, rows, X_ROWS):
            for r in range(0, TILE_ROWS, W_ROWS):
                for lane in range(0, 16, LANES):
                    of_w, of_x = w + r * W_BYTES + size * lane, x + t * x_bytes + 4 * lane
                    place = sums + t * SUMS_BYTES + 64 * r + 4 * lane
                    block = load_block(place)
                    for k in range(0, columns, 16):
                        block = add(block, of_w + size * k, of_x + 4 * k)
                    store_block(place, block)

    return multiply


@inline
def _tile(op: int, unit: int) -> tuple[int, int]:
    """The first row of a tile, and how many it has."""
    start = unit * TILE_ROWS
    return start, min(TILE_ROWS, argument(op, 1) - start)


@inline
def _put_row(op: int, t: int, unit: int, sums: int) -> None:
    """What is in the sums of a tile with row t of x to y."""
    start, count = _tile(op, unit)
    put(argument(op, 6) + t * argument(op, 7) + 4 * start, totals(sums), count, argument(op, 8))


def _define(name: str, fmt: Any) -> None:
    """Register the product kernel of a format."""
    multiply_rows, multiply_blocks, size = _multiply_rows(fmt), _multiply_blocks(fmt), fmt.WEIGHT_BYTES
    most, x_bytes = columns_of(fmt), x_bytes_of(fmt)
    needed = FLOAT_ROWS * (STRIP * SUMS_BYTES + x_bytes) + TILE_ROWS * W_BYTES + 64
    assert needed <= FLOAT_BYTES, "scratch has no room for many rows of x"

    @inline
    def decode(op: int, rows: int, unit: int, sums: int) -> None:
        start, count = _tile(op, unit)
        for t in range(rows):
            multiply_rows(op, argument(op, 4) + t * argument(op, 5), start, start + count, sums)
            _put_row(op, t, unit, sums)

    @inline
    def prefill(op: int, t: int, rows: int, unit: int, tiles: int, sums: int) -> None:
        """Tiles times rows t … t + rows - 1 of x."""
        n, row_bytes, x = argument(op, 2), argument(op, 3), sums + STRIP * FLOAT_ROWS * SUMS_BYTES
        w = x + FLOAT_ROWS * x_bytes
        for tile in range(tiles):
            clear(sums + tile * FLOAT_ROWS * SUMS_BYTES, sums + (tile * FLOAT_ROWS + rows) * SUMS_BYTES)
        for k in range(0, n, most):
            columns = min(most, n - k)
            for i in range(rows):
                copy(x + i * x_bytes, argument(op, 4) + (t + i) * argument(op, 5) + 4 * k, 4 * (columns + 15 & ~15))
            for tile in range(tiles):
                start, count = _tile(op, unit + tile)
                for r in range(count):
                    to = w + r * W_BYTES
                    store_f32x16(to + size * (columns & ~15), splat_f32(nb.float32(0)))  # behind the last column
                    copy(to, argument(op, 0) + (start + r) * row_bytes + size * k, size * columns)
                multiply_blocks(rows, columns, w, x, sums + tile * FLOAT_ROWS * SUMS_BYTES)
        for tile in range(tiles):
            for i in range(rows):
                _put_row(op, t + i, unit + tile, sums + (tile * FLOAT_ROWS + i) * SUMS_BYTES)

    @kernel(f"matmul_{name}")
    def matmul(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        rows, sums = row_count(op, batch), scratch + SHARE_BYTES + 63 & ~63
        for unit in range(first, last, 1 if rows <= DECODE_ROWS else STRIP):
            if rows <= DECODE_ROWS:
                decode(op, rows, unit, sums)
            else:
                for t in range(0, rows, FLOAT_ROWS):
                    prefill(op, t, min(FLOAT_ROWS, rows - t), unit, min(STRIP, last - unit), sums)


_define("f32", f32)
_define("f16", f16)
_define("bf16", bf16)
