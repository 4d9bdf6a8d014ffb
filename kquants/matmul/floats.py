"""The matmul kernels of float weights: y = W x for every row x of the batch.

Sums run in 16 lanes, added up in one fixed tree. Few rows of x (decode) read the weights where they lie; for many rows
(prefill) some columns of a tile are packed at a time. Both evaluate the same expression in the same order (see
`kquants.matmul.float_ops`), so a row's result has the same bits whatever else is in the batch. Scratch holds

    sums       [STRIP][FLOAT_ROWS][16 rows of W][16]   float32, see `kquants.matmul.sums`
    w          [16] of `Tuning.float_packed_bytes`     packed weights: as they are in the file if they are float16, or
                                                       bfloat16 that is multiplied, else float32; up to FLOAT_BYTES
    x          [SLICE_ROWS] of in_odd_lines            x as bfloat16, where it is that which is multiplied

Rows of W often lie a multiple of 4 KB apart. Loads of such rows hinder each other in the first-level cache (a Zen 4
multiplies at two thirds of its speed), those of packed rows do not, nor those of x, which buffers keep apart. To make
float32 of float16 beside products costs nothing; of BF16 it costs a fifth of the speed.

Op arguments: MatmulOp. One unit is one tile of 16 rows of W, or of a group's matrix (`kquants.matmul.products`).
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
    SLICE_ROWS,
    STRIP,
    in_odd_lines,
)
from kquants.matmul.float_decode import multiply_four_of, prefetch_ahead
from kquants.matmul.float_ops import FloatOps, float_ops
from kquants.matmul.float_prefill import multiply_packed_of, pack_of
from kquants.matmul.products import Product, product_of, put_tile, rows_of_tile, slice_of, tile_count, tile_of
from kquants.matmul.sums import SUMS_BYTES, X_ROWS, totals
from kquants.simd import load_f32x16_part, load_i64, store_as_bf16, store_i64
from kquants.threadpool.interpreter import row_count
from kquants.tuning import Tuning, tuning

assert FLOAT_ROWS % X_ROWS == 0, "register tiles reach beyond the sums"

_in_odd_lines = inline(in_odd_lines)


def _x_of(ops: FloatOps) -> Any:
    """`x_of(product, scratch, to)`: where the rows of x are that are multiplied, and bytes from one to the next.

    Each thread makes bfloat16 of them, once for a product whose units follow each other: of 256 rows of 8,192 columns
    in 0.2 ms. (Of 66 rows and 1,024 columns, for each strip, prompts took 7 % longer with two threads.)
    """
    if ops.x_bytes == 4:
        return _x_as_it_is

    @inline
    def x_of(product: Product, scratch: int, to: int) -> tuple[int, int]:
        n, row_bytes = product.columns, _in_odd_lines(2 * product.columns)
        if load_i64(scratch + PREPARED) != product.first + 1:
            for t in range(product.rows):
                x = product.x + (product.first + t) * product.x_bytes
                for k in range(0, n, 32):
                    low, high = load_f32x16_part(x + 4 * k, n - k), load_f32x16_part(x + 4 * k + 64, n - k - 16)
                    store_as_bf16(to + t * row_bytes + 2 * k, low, high)
            store_i64(scratch + PREPARED, product.first + 1)
        return to, row_bytes

    return x_of


@inline
def _x_as_it_is(product: Product, scratch: int, to: int) -> tuple[int, int]:
    return product.x + product.first * product.x_bytes, product.x_bytes


def _define(name: str, fmt: Any, tuning: Tuning) -> None:
    """Register the kernel of a format."""
    packed_bytes, few = tuning.float_packed_bytes, tuning.float_decode_rows
    assert packed_bytes <= MAX_PACKED_BYTES, "scratch has no room for packed rows"
    ops = float_ops(fmt, packed_bytes)
    multiply_four = multiply_four_of(fmt, ops, prefetch_ahead(tuning, ops.step))
    multiply_packed, x_of, pack = multiply_packed_of(ops, packed_bytes), _x_of(ops), pack_of(fmt, ops, packed_bytes)
    most, x_size = packed_bytes // ops.w_bytes, ops.x_bytes

    @inline
    def decode(product: Product, tile: int, x: int, x_bytes: int, sums: int) -> None:
        (_, count), row_bytes, w = rows_of_tile(product, tile), product.row_bytes, tile_of(product, tile)
        last = w + (count - 1) * row_bytes
        for r in range(0, count, 4):
            for t in range(product.rows):
                place = sums + t * SUMS_BYTES + 64 * r
                multiply_four(product.columns, row_bytes, w + r * row_bytes, last, x + t * x_bytes, place)
        for t in range(product.rows):
            put_tile(product, t, tile, totals(sums + t * SUMS_BYTES))

    @inline
    def prefill(product: Product, t: int, rows: int, first: int, tiles: int, x: int, x_bytes: int, sums: int) -> None:
        """Tiles from `first` on times rows t … t + rows - 1 of x; the first of these is at `x`."""
        n, tile_bytes = product.columns, FLOAT_ROWS * SUMS_BYTES
        w = sums + STRIP * tile_bytes
        for k in range(0, n, most):
            columns = min(most, n - k)
            for tile in range(tiles):
                w_rows = pack(product, first + tile, k, columns, w)
                multiply_packed(rows, w_rows, columns, w, x + x_size * k, x_bytes, sums + tile * tile_bytes, k)
        for tile in range(tiles):
            for i in range(rows):
                put_tile(product, t + i, first + tile, totals(sums + tile * tile_bytes + i * SUMS_BYTES))

    @inline
    def multiply(product: Product, first: int, last: int, scratch: int) -> None:
        """Tiles `first` … `last` - 1 of W times all rows of a product."""
        rows, sums = product.rows, scratch + SHARE_BYTES + 63 & ~63
        x, x_bytes = x_of(product, scratch, sums + FLOAT_BYTES)
        for tile in range(first, last, 1 if rows <= few else STRIP):
            if rows <= few:
                decode(product, tile, x, x_bytes, sums)
            else:
                for t in range(0, rows, FLOAT_ROWS):
                    x_rows, tiles = min(FLOAT_ROWS, rows - t), min(STRIP, last - tile)
                    prefill(product, t, x_rows, tile, tiles, x + t * x_bytes, x_bytes, sums)

    @kernel(f"matmul_{name}")
    def matmul(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        rows, tiles, unit = row_count(op, batch), tile_count(op), first
        while unit < last:
            group, tile = unit // tiles, unit % tiles
            whole, end = product_of(op, rows, group), min(tiles, tile + last - unit)
            for t in range(0, whole.rows, SLICE_ROWS):
                multiply(slice_of(whole, t), tile, end, scratch)
            unit += end - tile


_define("f32", f32, tuning())
_define("f16", f16, tuning())
_define("bf16", bf16, tuning())
