"""Matrix products: y = W x for every row x of the batch, W in any format.

Quantized weights meet quantized activations (`kquants.activations`). For each block of 32, in order of k:

    y = y + (d · float(isum) - dmin · float(msum)) · d_x

isum = scale · Σ q·q_x and msum = minimum · Σ q_x are exact int32. Float weights meet float32 activations in
16 lanes, added up in one fixed tree. Few rows of x (decode) read the weights where they lie; many rows
(prefill) unpack one tile of W into scratch and use it for all of them. Both evaluate the same expression in
the same order, so a row's result has the same bits whatever else is in the batch.

Op arguments: W, rows of W, columns, bytes per row of W, x, bytes per row of x, y, bytes per row of y, and 1 to
add to y instead of writing it. One unit is one tile of 16 rows of W.
"""

from typing import Any

import numba as nb

from kquants.decorators import Block, inline, kernel
from kquants.formats import bf16, f16, f32, q4_k, q6_k, q8_0
from kquants.interpreter import argument, row_count
from kquants.layout import QUANTIZED_BLOCK_BYTES, TILE_ROWS
from kquants.simd import (
    dot_pairs_i8,
    fma_f32,
    halves_i32,
    load_f32,
    load_f32x16,
    load_i8x32,
    load_i32,
    mul_i32,
    splat_f32,
    store_f32,
    store_f32x16,
    store_i8x32,
    store_i32,
    sum_f32,
    sum_i32,
)

TILE_BLOCK = 64
"""Bytes of one unpacked block in a tile: q, its two scales, minimum, d, dmin, and 12 spare."""

DECODE_ROWS = 3
"""Up to this many rows of x, unpacking a tile costs more than it saves."""


@inline
def _add_block(y: float, block: Block, x: int, scale: int) -> float:
    """`y` plus the product of a block of weights with the quantized values at `x`, scaled as `scale` says."""
    q, low, high, minimum, d, dmin = block
    isum = sum_i32(mul_i32(dot_pairs_i8(q, load_i8x32(x)), halves_i32(low, high)))
    msum = nb.int32(-minimum * load_i32(scale + 8))
    return y + (d * nb.float32(isum) - dmin * nb.float32(msum)) * load_f32(scale)


@inline
def _store_block(tile: int, block: Block) -> None:
    q, low, high, minimum, d, dmin = block
    store_i8x32(tile, q)
    store_i32(tile + 32, low)
    store_i32(tile + 36, high)
    store_i32(tile + 40, minimum)
    store_f32(tile + 44, d)
    store_f32(tile + 48, dmin)


@inline
def _load_block(tile: int) -> Block:
    return (
        load_i8x32(tile),
        load_i32(tile + 32),
        load_i32(tile + 36),
        load_i32(tile + 40),
        load_f32(tile + 44),
        load_f32(tile + 48),
    )


@inline
def _dot_tile(tile: int, x: int, n: int) -> float:
    """Product of an unpacked row of n weights with a row of quantized activations."""
    y = nb.float32(0)
    for i in range(n >> 5):
        y = _add_block(y, _load_block(tile + i * TILE_BLOCK), x + 32 * i, x + n + QUANTIZED_BLOCK_BYTES * i)
    return y


@inline
def _dot_tile_f32(tile: int, x: int, n: int) -> float:
    """Product of a row of n float32, zero up to a multiple of 16, with a row of float32 activations."""
    y = splat_f32(nb.float32(0))
    for k in range(0, n, 16):
        y = fma_f32(load_f32x16(tile + 4 * k), load_f32x16(x + 4 * k), y)
    return sum_f32(y)


@inline
def _put(y: int, value: float, accumulate: int) -> None:
    store_f32(y, load_f32(y) + value if accumulate else value)


def _define(name: str, dot: Any, unpack: Any, dot_unpacked: Any, tile_weight_bytes: int) -> None:
    """Register the product kernel of a format.

    `dot(row, x, n)` multiplies a row of weights where it lies, for decode. For prefill `unpack(row, n, tile)`
    writes it to scratch once, `tile_weight_bytes` for each weight, and `dot_unpacked(tile, x, n)` multiplies
    it from there.
    """

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
        tile_bytes = tile_weight_bytes * ((n + 15) & ~15)
        for r in range(start, stop):
            unpack(w + r * row_bytes, n, scratch + (r - start) * tile_bytes)
        for t in range(rows):
            for r in range(start, stop):
                value = dot_unpacked(scratch + (r - start) * tile_bytes, x + t * x_bytes, n)
                _put(y + t * y_bytes + 4 * r, value, argument(op, 8))

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


def _define_quantized(name: str, block: Any) -> None:
    @inline
    def dot(row: int, x: int, n: int) -> float:
        y = nb.float32(0)
        for i in range(n >> 5):
            y = _add_block(y, block(row, i), x + 32 * i, x + n + QUANTIZED_BLOCK_BYTES * i)
        return y

    @inline
    def unpack(row: int, n: int, tile: int) -> None:
        for i in range(n >> 5):
            _store_block(tile + i * TILE_BLOCK, block(row, i))

    _define(name, dot, unpack, _dot_tile, tile_weight_bytes=TILE_BLOCK // 32)


def _define_float(name: str, fmt: Any) -> None:
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

    @inline
    def unpack(row: int, n: int, tile: int) -> None:
        whole = n & ~15
        for k in range(0, whole, 16):
            store_f32x16(tile + 4 * k, lanes(row + size * k))
        if whole < n:
            store_f32x16(tile + 4 * whole, lanes_part(row + size * whole, n - whole))

    _define(name, dot, unpack, _dot_tile_f32, tile_weight_bytes=4)


_define_float("f32", f32)
_define_float("f16", f16)
_define_float("bf16", bf16)
