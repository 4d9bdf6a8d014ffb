"""Matrix products of float weights: y = W x for every row x of the batch.

Sums run in 16 lanes, added up in one fixed tree. Few rows of x (decode) read the weights where they lie; many rows
(prefill) unpack one tile of W into scratch and use it for all of them. Both evaluate the same expression in the same
order, so a row's result has the same bits whatever else is in the batch.

Op arguments: W, rows of W, columns, bytes per row of W, x, bytes per row of x, y, bytes per row of y, 1 to add to y
instead of writing it, and the record of the product that follows, or 0 (`kquants.tiled` uses it). One unit is one
tile of 16 rows of W.
"""

from typing import Any

import numba as nb

from kquants.decorators import inline, kernel
from kquants.formats import bf16, f16, f32
from kquants.interpreter import argument, row_count
from kquants.layout import DECODE_ROWS, TILE_ROWS
from kquants.rows import float_row_of
from kquants.simd import fma_f32, load_f32, load_f32x16, splat_f32, store_f32, sum_f32
from kquants.sums import TOKENS, fma_tokens, store_totals, zero_sums


@inline
def _put(y: int, value: float, accumulate: int) -> None:
    store_f32(y, load_f32(y) + value if accumulate else value)


def _dot(fmt: Any) -> Any:
    """`dot(row, x, n)`: a row of weights, where it lies, times x."""
    lanes, lanes_part, size = fmt.lanes, fmt.lanes_part, fmt.WEIGHT_BYTES

    @inline
    def dot(row: int, x: int, n: int) -> float:
        y = splat_f32(nb.float32(0))
        whole = n & ~15
        for k in range(0, whole, 16):
            y = fma_f32(lanes(row + size * k), load_f32x16(x + 4 * k), y)
        if whole < n:
            y = fma_f32(lanes_part(row + size * whole, n - whole), load_f32x16(x + 4 * whole), y)
        return sum_f32(y)

    return dot


def _define(name: str, fmt: Any) -> None:
    """Register the product kernel of a format."""
    dot, unpack = _dot(fmt), float_row_of(fmt, padded=True)

    @inline
    def decode(op: int, rows: int, start: int, stop: int) -> None:
        w, n, row_bytes = argument(op, 0), argument(op, 2), argument(op, 3)
        x, x_bytes, y, y_bytes = argument(op, 4), argument(op, 5), argument(op, 6), argument(op, 7)
        for r in range(start, stop):
            for t in range(rows):
                value = dot(w + r * row_bytes, x + t * x_bytes, n)
                _put(y + t * y_bytes + 4 * r, value, argument(op, 8))

    @inline
    def prefill(op: int, rows: int, start: int, stop: int, scratch: int) -> None:
        w, n, row_bytes = argument(op, 0), argument(op, 2), argument(op, 3)
        x, x_bytes, y, y_bytes = argument(op, 4), argument(op, 5), argument(op, 6), argument(op, 7)
        tile, tile_bytes = scratch + 64, 4 * ((n + 15) & ~15)
        for r in range(start, stop):
            unpack(w + r * row_bytes, n, tile + (r - start) * tile_bytes)
        for t in range(0, rows, TOKENS):
            for r in range(start, stop):
                sums, row, at = zero_sums(), tile + (r - start) * tile_bytes, x + t * x_bytes
                for k in range(0, 4 * n, 64):
                    sums = fma_tokens(sums, load_f32x16(row + k), at + k, x_bytes)
                store_totals(scratch, sums)
                for i in range(min(TOKENS, rows - t)):
                    _put(y + (t + i) * y_bytes + 4 * r, load_f32(scratch + 4 * i), argument(op, 8))

    @kernel(f"matmul_{name}")
    def matmul(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        rows = row_count(op, batch)
        for unit in range(first, last):
            start = unit * TILE_ROWS
            stop = min(start + TILE_ROWS, argument(op, 1))
            if rows <= DECODE_ROWS:
                decode(op, rows, start, stop)
            else:
                prefill(op, rows, start, stop, scratch)


_define("f32", f32)
_define("f16", f16)
_define("bf16", bf16)
