"""Encoders of formats with a scale for each 32 or 16 weights: 16 such blocks at once, side by side, one per SIMD lane.

Blocks are read transposed, into 32 or 16 vectors of 16 float32: vector k holds weight k of each block. A search for the
best scale then needs no sum across lanes, and does the same work for every block.
"""

from typing import Any

import numba as nb

from kquants.compiler.decorators import Vector, inline, kernel
from kquants.encoders.encode_result import first_beyond, write_bad, write_result
from kquants.encoders.lane_ops import choose, transpose
from kquants.encoders.vectors import stack_buffer
from kquants.simd import (
    add_square,
    copy,
    div_f32,
    load_f32x16,
    max_f32,
    splat_f32,
    store_f32x16,
    sub_f32,
    zero_f64,
)

_LEAST = nb.float32(1e-30)


def define(name: str, nbytes: int, limit: float, encode16: Any, n: int = 32) -> None:
    """Register the encoder of a format with blocks of `n` weights in `nbytes` bytes; see `kquants.encoders`.

    `encode16(x, weights, decoded, target)` encodes 16 blocks to `target` and writes their decoded values; x, weights
    and decoded are the addresses of n vectors. `limit` is the largest magnitude that can be encoded.
    """
    limit = nb.float32(limit)
    block = 4 * n
    sixteen = 16 * block  # bytes of a block, and of 16 blocks, as float32
    take_buffer = stack_buffer(4 * sixteen + 16 * nbytes)

    @inline
    def transpose_blocks(blocks: int, to: int) -> None:
        """Transpose 16 consecutive blocks to n vectors."""
        for k in range(0, n, 16):
            transpose(blocks + 4 * k, block, to + 64 * k)

    @inline
    def equal_weights(weights: int) -> None:
        for k in range(n):
            store_f32x16(weights + 64 * k, splat_f32(nb.float32(1)))

    @inline
    def load_weights(importance: int, columns: int, first: int, staging: int, weights: int) -> None:
        """Load the importance of the weights of 16 blocks, from block `first` on, scaled so that the largest of a block
        is 1.

        A block whose importance is all below 1e-30 gets equal weights.
        """
        for lane in range(16):
            copy(staging + lane * block, importance + (first + lane) * block % (4 * columns), block)
        transpose_blocks(staging, weights)
        largest = splat_f32(_LEAST)
        for k in range(n):
            largest = max_f32(largest, load_f32x16(weights + 64 * k))
        one = splat_f32(nb.float32(1))
        for k in range(n):
            scaled = div_f32(load_f32x16(weights + 64 * k), largest)
            store_f32x16(weights + 64 * k, choose(splat_f32(_LEAST), largest, scaled, one))

    @inline
    def add_squares(x: int, sums: Vector) -> Vector:
        for k in range(n):
            sums = add_square(sums, load_f32x16(x + 64 * k))
        return sums

    @inline
    def add_errors(x: int, decoded: int, sums: Vector) -> Vector:
        for k in range(n):
            sums = add_square(sums, sub_f32(load_f32x16(x + 64 * k), load_f32x16(decoded + 64 * k)))
        return sums

    @inline
    def padded(source: int, blocks: int, staging: int) -> int:
        """The address of 16 blocks: the source, or a copy of fewer blocks followed by zeros."""
        if blocks >= 16:
            return source
        for k in range(n):
            store_f32x16(staging + 64 * k, splat_f32(nb.float32(0)))
        copy(staging, source, blocks * block)
        return staging

    @kernel(f"encode_{name}", arguments=6)
    def encode(source: int, rows: int, columns: int, importance: int, target: int, result: int) -> None:
        """See `kquants.encoders`."""
        staging = take_buffer()
        x, weights, decoded, packed = (
            staging + sixteen,
            staging + 2 * sixteen,
            staging + 3 * sixteen,
            staging + 4 * sixteen,
        )
        errors, squares, blocks = zero_f64(), zero_f64(), rows * columns // n
        equal_weights(weights)
        for first in range(0, blocks, 16):
            count, given = min(16, blocks - first), source + first * block
            bad = first_beyond(given, n * count, limit)
            if bad >= 0:
                write_bad(result, n * first + bad)
                return
            transpose_blocks(padded(given, count, staging), x)
            if importance != 0:
                load_weights(importance, columns, first, staging, weights)
            encode16(x, weights, decoded, packed)
            copy(target + first * nbytes, packed, count * nbytes)
            errors, squares = add_errors(x, decoded, errors), add_squares(x, squares)
        write_result(result, errors, squares)
