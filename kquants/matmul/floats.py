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

from kquants.compiler.decorators import inline, kernel
from kquants.formats import bf16, f16, f32
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
from kquants.matmul.float_decode import multiply_four_of, prefetch_ahead
from kquants.matmul.float_ops import FloatOps, float_ops
from kquants.matmul.float_prefill import multiply_packed_of, pack_of
from kquants.matmul.groups import matmul_op, rows_of_tile, tile_address
from kquants.matmul.sums import SUMS_BYTES, X_ROWS, totals, write_or_add
from kquants.simd import load_f32x16_part, load_i64, store_as_bf16, store_i64
from kquants.threadpool.interpreter import row_count
from kquants.tuning import Tuning, tuning

assert FLOAT_ROWS % X_ROWS == 0, "register tiles reach beyond the sums"

_in_odd_lines = inline(in_odd_lines)


def _x_of(ops: FloatOps) -> Any:
    """`x_of(op, rows, scratch, to)`: where the rows of x are that are multiplied, and bytes from one to the next.

    Each thread makes bfloat16 of all of them, once for an op: of 256 rows of 8,192 columns in 0.2 ms. (Of 66 rows and
    1,024 columns, for each strip, prompts took 7 % longer with two threads.)
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
def _put_row(op: int, t: int, unit: int, sums: int) -> None:
    """What is in the sums of a tile with row t of x to y."""
    (start, count), given = rows_of_tile(op, unit), matmul_op(op)
    write_or_add(given.y + t * given.y_bytes + 4 * start, totals(sums), count, given.accumulate)


def _define(name: str, fmt: Any, tuning: Tuning) -> None:
    """Register the kernel of a format."""
    packed_bytes, few = tuning.float_packed_bytes, tuning.float_decode_rows
    assert packed_bytes <= MAX_PACKED_BYTES, "scratch has no room for packed rows"
    ops = float_ops(fmt, packed_bytes)
    multiply_four = multiply_four_of(fmt, ops, prefetch_ahead(tuning, ops.step))
    multiply_packed, x_of, pack = multiply_packed_of(ops, packed_bytes), _x_of(ops), pack_of(fmt, ops, packed_bytes)
    most, x_size = packed_bytes // ops.w_bytes, ops.x_bytes

    @inline
    def decode(op: int, rows: int, unit: int, x: int, x_bytes: int, sums: int) -> None:
        (_, count), row_bytes, w = rows_of_tile(op, unit), matmul_op(op).row_bytes, tile_address(op, unit)
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
                    x_rows, tiles = min(FLOAT_ROWS, rows - t), min(STRIP, last - unit)
                    prefill(op, t, x_rows, unit, tiles, x + t * x_bytes, x_bytes, sums)


_define("f32", f32, tuning())
_define("f16", f16, tuning())
_define("bf16", bf16, tuning())
