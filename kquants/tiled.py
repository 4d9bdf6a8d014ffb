"""Fast matrix products for the common quantized formats: tiles of 16 rows of W, a row in each lane.

For each block of 32 weights, in order of k, with exact int32 sums `dot` (of 16 weights for Q6_K):

    y = fma(float(dot), (d · scale) · d_x, y),  then  y = fma(-(dmin · minimum), d_x · Σ q_x, y)

where the format has a minimum. Weights are unsigned bytes here (q plus an offset), so an offset · Σ q_x is taken
off `dot` in integers. Decode sums each row across the lanes of a vector; prefill unpacks the tile so that lanes
are rows, and runs TOKENS rows of x over it at a time. Both give each sum the same bits.

Op arguments are those of `kquants.matmul`, and so is the unit.
"""

from typing import Any

import numba as nb

from kquants.decorators import Vector, inline, kernel
from kquants.formats import q4_k, q6_k, q8_0
from kquants.interpreter import argument, row_count
from kquants.layout import DECODE_ROWS, QUANTIZED_BLOCK_BYTES, TILE_ROWS
from kquants.simd import (
    add_f32,
    fma_f32,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    load_i32,
    mul_f32,
    splat_f32,
    store_f32x16,
    store_f32x16_part,
)
from kquants.tiles import (
    TOKENS,
    add_product,
    add_scaled,
    add_splat_i32,
    copy,
    dot_rows,
    dot_tokens,
    load_i8x64,
    load_twice,
    no_sums,
    prefetch,
    start_sums,
    store_interleaved,
    store_sums,
    sum_halves,
    sum_rows,
    to_f32,
    zero_sums,
)

BLOCK_WEIGHTS, BLOCK_SCALES = 8 * 64, 2 * 64
"""Bytes of an unpacked block: eight vectors of weights, two of scales (or a scale and a minimum)."""


@inline
def _put(y: int, v: Vector, count: int, accumulate: int) -> None:
    """Write the first `count` lanes to y, or add them to what is there."""
    if count == TILE_ROWS:
        store_f32x16(y, add_f32(load_f32x16(y), v) if accumulate else v)
    else:
        store_f32x16_part(y, add_f32(load_f32x16_part(y, count), v) if accumulate else v, count)


# --- one block of a tile: decode and prefill, by what the format has -----------------------------------


@inline
def _scaled(y: Vector, dot: Vector, d: int, x_scale: int) -> Vector:
    return fma_f32(to_f32(dot), mul_f32(load_f32x16(d), splat_f32(load_f32(x_scale))), y)


@inline
def _decode_minimum(y: Vector, parts: Any, scales: int, x: int) -> Vector:
    y = _scaled(y, sum_rows(parts), scales, x)
    return fma_f32(load_f32x16(scales + 64), splat_f32(load_f32(x + 4)), y)


@inline
def _prefill_minimum(y: Any, w: int, scales: int, x: int, x_scale: int, stride: int) -> Any:
    sums = no_sums()
    for k in range(8):
        sums = dot_tokens(sums, load_i8x64(w + 64 * k), x + 4 * k, stride)
    y = add_scaled(y, sums, load_f32x16(scales), x_scale, stride)
    return add_product(y, load_f32x16(scales + 64), x_scale + 4, stride)


@inline
def _decode_signed(y: Vector, parts: Any, scales: int, x: int) -> Vector:
    return _scaled(y, add_splat_i32(sum_rows(parts), nb.int32(load_i32(x + 8) << 7)), scales, x)


@inline
def _prefill_signed(y: Any, w: int, scales: int, x: int, x_scale: int, stride: int) -> Any:
    sums = start_sums(x_scale + 8, stride, 7)
    for k in range(8):
        sums = dot_tokens(sums, load_i8x64(w + 64 * k), x + 4 * k, stride)
    return add_scaled(y, sums, load_f32x16(scales), x_scale, stride)


@inline
def _decode_halves(y: Vector, parts: Any, scales: int, x: int) -> Vector:
    first, second = sum_halves(parts)
    y = _scaled(y, add_splat_i32(first, nb.int32(load_i32(x + 12) << 5)), scales, x)
    return _scaled(y, add_splat_i32(second, nb.int32(load_i32(x + 16) << 5)), scales + 64, x)


@inline
def _prefill_halves(y: Any, w: int, scales: int, x: int, x_scale: int, stride: int) -> Any:
    for half in range(2):
        sums = start_sums(x_scale + 12 + 4 * half, stride, 5)
        for k in range(4 * half, 4 * half + 4):
            sums = dot_tokens(sums, load_i8x64(w + 64 * k), x + 4 * k, stride)
        y = add_scaled(y, sums, load_f32x16(scales + 64 * half), x_scale, stride)
    return y


# --- the product ---------------------------------------------------------------------------------------


def _define(name: str, fmt: Any, blocks: int, decode_block: Any, prefill_block: Any) -> None:
    """Register the product of a format whose super-blocks have `blocks` blocks of 32."""
    tile_scales, tile_weights = fmt.tile_scales, fmt.tile_weights
    super_bytes = fmt.BLOCK_BYTES

    @inline
    def fetch_ahead(w: int, row_bytes: int, b: int) -> None:
        """Ask for a part of the tile after this one, as large as block `b` of all its rows.

        In small parts between the work: all at once, the requests would wait for each other.
        """
        part = TILE_ROWS * super_bytes // blocks
        start = w + TILE_ROWS * row_bytes + b * part
        for line in range(0, part, 64):
            prefetch(start + line)

    @inline
    def decode(op: int, rows: int, w: int, row_bytes: int, count: int, y: int, scratch: int) -> None:
        n, x, x_bytes, y_bytes = argument(op, 2), argument(op, 4), argument(op, 5), argument(op, 7)
        sums, scales = scratch, scratch + 64 * DECODE_ROWS
        for t in range(rows):
            store_f32x16(sums + 64 * t, splat_f32(nb.float32(0)))
        for i in range(n // (32 * blocks)):
            tile_scales(w, row_bytes, i, scales)
            for j in range(blocks):
                b = i * blocks + j
                fetch_ahead(w, row_bytes, b)
                block = tile_weights(w, row_bytes, i, j)
                for t in range(rows):
                    parts = dot_rows(block, load_twice(x + t * x_bytes + 32 * b))
                    x_scale = x + t * x_bytes + n + QUANTIZED_BLOCK_BYTES * b
                    total = load_f32x16(sums + 64 * t)
                    store_f32x16(sums + 64 * t, decode_block(total, parts, scales + BLOCK_SCALES * j, x_scale))
        for t in range(rows):
            _put(y + t * y_bytes, load_f32x16(sums + 64 * t), count, argument(op, 8))

    @inline
    def prefill(op: int, rows: int, w: int, row_bytes: int, count: int, y: int, scratch: int) -> None:
        n, x, x_bytes, y_bytes = argument(op, 2), argument(op, 4), argument(op, 5), argument(op, 7)
        weights, scales = scratch + 64 * TOKENS, scratch + 64 * TOKENS + n // 32 * BLOCK_WEIGHTS
        for i in range(n // (32 * blocks)):
            tile_scales(w, row_bytes, i, scales + i * blocks * BLOCK_SCALES)
            for j in range(blocks):
                fetch_ahead(w, row_bytes, i * blocks + j)
                store_interleaved(tile_weights(w, row_bytes, i, j), weights + (i * blocks + j) * BLOCK_WEIGHTS)
        for t in range(0, rows, TOKENS):
            sums, at = zero_sums(), x + t * x_bytes
            for b in range(n // 32):
                to_scale = at + n + QUANTIZED_BLOCK_BYTES * b
                unpacked, unpacked_scales = weights + b * BLOCK_WEIGHTS, scales + b * BLOCK_SCALES
                sums = prefill_block(sums, unpacked, unpacked_scales, at + 32 * b, to_scale, x_bytes)
            store_sums(scratch, sums, 64)
            for k in range(min(TOKENS, rows - t)):
                _put(y + (t + k) * y_bytes, load_f32x16(scratch + 64 * k), count, argument(op, 8))

    @kernel(f"matmul_{name}")
    def matmul(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        rows, row_bytes = row_count(op, batch), argument(op, 3)
        for unit in range(first, last):
            start = unit * TILE_ROWS
            count = min(TILE_ROWS, argument(op, 1) - start)
            w, y = argument(op, 0) + start * row_bytes, argument(op, 6) + 4 * start
            if count < TILE_ROWS:
                # A tile is read whole: put the last rows where reading past them does no harm.
                copy(scratch, w, count * row_bytes)
                w = scratch
            work = scratch + (TILE_ROWS * row_bytes + 63 & ~63)
            if rows <= DECODE_ROWS:
                decode(op, rows, w, row_bytes, count, y, work)
            else:
                prefill(op, rows, w, row_bytes, count, y, work)


_define("q8_0", q8_0, 1, _decode_signed, _prefill_signed)
_define("q4_k", q4_k, 8, _decode_minimum, _prefill_minimum)
_define("q6_k", q6_k, 8, _decode_halves, _prefill_halves)
