"""Matrix products of quantized formats: tiles of 16 rows of W, a row in each lane.

A tile is unpacked a super-block at a time (256 weights of each row, 32 in formats without super-blocks) into
scratch that stays in the first-level cache, and multiplied with all rows of x: one algorithm, and one expression
(see `kquants.blocks`), for decode, small batches and prefill, so that a row of x always gets the same bits.

Op arguments are those of `kquants.matmul`, and so is the unit.
"""

from typing import Any

import numba as nb

from kquants.amx import AMX, DOTS_BYTES, configure, multiply_rows, release
from kquants.blocks import (
    BLOCK_WEIGHTS,
    SPAN_SCALES,
    TOGETHER,
    multiply_block,
    multiply_tile,
    store_tile,
    sums_of,
)
from kquants.decorators import Vector, inline, kernel
from kquants.formats import q4_k, q6_k, q8_0
from kquants.interpreter import argument, row_count
from kquants.layout import QUANTIZED_BLOCK_BYTES as X_BLOCK
from kquants.layout import TILE_ROWS
from kquants.simd import (
    add_f32,
    copy,
    load_f32x16,
    load_f32x16_part,
    splat_f32,
    store_f32x16,
    store_f32x16_part,
)

GROUP = 8
"""Blocks that are unpacked together: those of a super-block, or eight that have none."""


@inline
def _put(y: int, v: Vector, count: int, accumulate: int) -> None:
    """Write the first `count` lanes to y, or add them to what is there."""
    if count == TILE_ROWS:
        store_f32x16(y, add_f32(load_f32x16(y), v) if accumulate else v)
    else:
        store_f32x16_part(y, add_f32(load_f32x16_part(y, count), v) if accumulate else v, count)


def _vector_product(fmt: Any, blocks: int) -> Any:
    """`multiply(rows, weights, scales, x, x_scales, stride, sums)` of unpacked blocks, TOGETHER rows of x at a time."""
    multiply, (_, load_sums, store_sums) = multiply_block(fmt), sums_of(TOGETHER)
    block_scales = fmt.SPANS * SPAN_SCALES

    @inline
    def multiply_all(rows: int, weights: int, scales: int, x: int, x_scales: int, stride: int, sums: int) -> None:
        for t in range(0, rows, TOGETHER):
            y, to_x, to_scales = load_sums(sums + 64 * t), x + t * stride, x_scales + t * stride
            for j in range(blocks):
                w, s, x_scale = weights + j * BLOCK_WEIGHTS, scales + j * block_scales, to_scales + j * X_BLOCK
                y = multiply(y, w, s, to_x + 32 * j, x_scale, stride)
            store_sums(sums + 64 * t, y)

    return multiply_all


def _matrix_product(fmt: Any, blocks: int) -> Any:
    """The same with matrix tiles, 16 rows of x at a time or, where there are so few, 8."""
    multiply_8, multiply_16 = multiply_rows(fmt, 8, blocks), multiply_rows(fmt, 16, blocks)

    @inline
    def multiply_all(rows: int, weights: int, scales: int, x: int, x_scales: int, stride: int, sums: int) -> None:
        if rows <= 8:
            multiply_8(sums, weights, scales, x, x_scales, stride)
        else:
            for t in range(0, rows, 16):
                multiply_16(sums + 64 * t, weights, scales, x + t * stride, x_scales + t * stride, stride)

    return multiply_all


def _define_decode(fmt: Any, rows: int) -> Any:
    """`decode(op, t, w, row_bytes, sums)`: the sums of rows t, t + 1, … of x for a tile, straight from its blocks."""
    blocks, super_bytes = fmt.BLOCKS, fmt.BLOCK_BYTES
    multiply, (zeros, _, store_sums) = multiply_tile(fmt, rows), sums_of(rows)

    @inline
    def decode(op: int, w: int, row_bytes: int, sums: int) -> None:
        n, x, x_bytes, y = argument(op, 2), argument(op, 4), argument(op, 5), zeros()
        for i in range(n // (32 * blocks)):
            ahead = w + TILE_ROWS * (row_bytes + i * super_bytes)
            x_scales = x + n + i * X_BLOCK * blocks
            y = multiply(y, w + i * super_bytes, row_bytes, ahead, x + i * 32 * blocks, x_scales, x_bytes)
        store_sums(sums, y)

    return decode


def _define_prefill(fmt: Any) -> Any:
    """`prefill(op, rows, w, row_bytes, sums)`: the sums of all rows of x for a tile, unpacked in parts to scratch.

    Blocks go through it GROUP at a time, so that the work on one can overlap with that on the next.
    """
    blocks, super_bytes = fmt.BLOCKS, fmt.BLOCK_BYTES
    store, product = store_tile(fmt, signed=AMX), _matrix_product if AMX else _vector_product
    multiply_group, multiply_last = product(fmt, GROUP), product(fmt, blocks)
    set_up_8, set_up_16 = configure(fmt, 8), configure(fmt, 16)
    block_scales = fmt.SPANS * SPAN_SCALES

    @inline
    def unpack(w: int, row_bytes: int, first: int, last: int, weights: int, scales: int) -> None:
        for i in range(first, last):
            at, b = w + i * super_bytes, (i - first) * blocks
            ahead = w + TILE_ROWS * (row_bytes + i * super_bytes)
            store(at, row_bytes, ahead, weights + b * BLOCK_WEIGHTS, scales + b * block_scales)

    @inline
    def prefill(op: int, rows: int, w: int, row_bytes: int, sums: int) -> None:
        n, x, x_bytes = argument(op, 2), argument(op, 4), argument(op, 5)
        weights = sums + 64 * (rows + 15 & ~15)
        scales = weights + GROUP * BLOCK_WEIGHTS
        for t in range(rows):
            store_f32x16(sums + 64 * t, splat_f32(nb.float32(0)))
        if AMX and rows <= 8:
            set_up_8(scales)
        elif AMX:
            set_up_16(scales)
        whole = n // (32 * GROUP) * GROUP
        for b in range(0, whole, GROUP):
            unpack(w, row_bytes, b // blocks, (b + GROUP) // blocks, weights, scales)
            multiply_group(rows, weights, scales, x + 32 * b, x + n + X_BLOCK * b, x_bytes, sums)
        for b in range(whole, n // 32, blocks):
            unpack(w, row_bytes, b // blocks, b // blocks + 1, weights, scales)
            multiply_last(rows, weights, scales, x + 32 * b, x + n + X_BLOCK * b, x_bytes, sums)
        if AMX:
            release()

    return prefill


def _define(name: str, fmt: Any) -> None:
    """Register the product of a format."""
    decode_1, decode_2, prefill = _define_decode(fmt, 1), _define_decode(fmt, 2), _define_prefill(fmt)
    scratch_behind_sums = GROUP * (BLOCK_WEIGHTS + fmt.SPANS * SPAN_SCALES) + DOTS_BYTES

    @kernel(f"matmul_{name}")
    def matmul(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        rows, row_bytes = row_count(op, batch), argument(op, 3)
        sums = scratch + 63 & ~63
        last_rows = sums + 64 * (rows + 15 & ~15) + scratch_behind_sums
        for unit in range(first, last):
            start = unit * TILE_ROWS
            count = min(TILE_ROWS, argument(op, 1) - start)
            w, y = argument(op, 0) + start * row_bytes, argument(op, 6) + 4 * start
            if count < TILE_ROWS:
                # A tile is read whole: put the last rows where reading past them does no harm.
                copy(last_rows, w, count * row_bytes)
                w = last_rows
            if rows == 1:
                decode_1(op, w, row_bytes, sums)
            elif rows == 2:
                decode_2(op, w, row_bytes, sums)
            else:
                prefill(op, rows, w, row_bytes, sums)
            for t in range(rows):
                _put(y + t * argument(op, 7), load_f32x16(sums + 64 * t), count, argument(op, 8))


_define("q8_0", q8_0)
_define("q4_k", q4_k)
_define("q6_k", q6_k)
