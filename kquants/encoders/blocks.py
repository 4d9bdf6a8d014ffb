"""Encoders of formats with blocks of 32 weights: 16 blocks at once, side by side, one per SIMD lane.

Blocks are read transposed, into 32 vectors of 16 float32: vector k holds weight k of each block. A search for the best
scale then needs no sum across lanes, and does the same work for every block.
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

_BLOCK = 32 * 4
_SIXTEEN = 16 * _BLOCK
"""Bytes of a block, and of 16 blocks, as float32."""

_LEAST = nb.float32(1e-30)


@inline
def _transpose(blocks: int, to: int) -> None:
    """Transpose 16 consecutive blocks to 32 vectors."""
    for half in range(2):
        transpose(blocks + 64 * half, _BLOCK, to + 1024 * half)


@inline
def _equal_weights(weights: int) -> None:
    for k in range(32):
        store_f32x16(weights + 64 * k, splat_f32(nb.float32(1)))


@inline
def _load_weights(importance: int, columns: int, first: int, staging: int, weights: int) -> None:
    """Load the importance of the weights of 16 blocks, from block `first` on, scaled so that the largest of a block is
    1.

    A block whose importance is all below 1e-30 gets equal weights.
    """
    for lane in range(16):
        copy(staging + lane * _BLOCK, importance + (first + lane) * _BLOCK % (4 * columns), _BLOCK)
    _transpose(staging, weights)
    largest = splat_f32(_LEAST)
    for k in range(32):
        largest = max_f32(largest, load_f32x16(weights + 64 * k))
    one = splat_f32(nb.float32(1))
    for k in range(32):
        scaled = div_f32(load_f32x16(weights + 64 * k), largest)
        store_f32x16(weights + 64 * k, choose(splat_f32(_LEAST), largest, scaled, one))


@inline
def _add_squares(x: int, sums: Vector) -> Vector:
    for k in range(32):
        sums = add_square(sums, load_f32x16(x + 64 * k))
    return sums


@inline
def _add_errors(x: int, decoded: int, sums: Vector) -> Vector:
    for k in range(32):
        sums = add_square(sums, sub_f32(load_f32x16(x + 64 * k), load_f32x16(decoded + 64 * k)))
    return sums


@inline
def _padded(source: int, blocks: int, staging: int) -> int:
    """The address of 16 blocks: the source, or a copy of fewer blocks followed by zeros."""
    if blocks >= 16:
        return source
    for k in range(32):
        store_f32x16(staging + 64 * k, splat_f32(nb.float32(0)))
    copy(staging, source, blocks * _BLOCK)
    return staging


def define(name: str, nbytes: int, limit: float, encode16: Any) -> None:
    """Register the encoder of a format with blocks of 32 weights in `nbytes` bytes; see `kquants.encoders`.

    `encode16(x, weights, decoded, target)` encodes 16 blocks to `target` and writes their decoded values; x, weights
    and decoded are the addresses of 32 vectors. `limit` is the largest magnitude that can be encoded.
    """
    limit = nb.float32(limit)
    take_buffer = stack_buffer(4 * _SIXTEEN + 16 * nbytes)

    @kernel(f"encode_{name}", arguments=6)
    def encode(source: int, rows: int, columns: int, importance: int, target: int, result: int) -> None:
        staging = take_buffer()
        x, weights, decoded, packed = (
            staging + _SIXTEEN,
            staging + 2 * _SIXTEEN,
            staging + 3 * _SIXTEEN,
            staging + 4 * _SIXTEEN,
        )
        errors, squares, blocks = zero_f64(), zero_f64(), rows * columns // 32
        _equal_weights(weights)
        for first in range(0, blocks, 16):
            count, given = min(16, blocks - first), source + first * _BLOCK
            bad = first_beyond(given, 32 * count, limit)
            if bad >= 0:
                write_bad(result, 32 * first + bad)
                return
            _transpose(_padded(given, count, staging), x)
            if importance != 0:
                _load_weights(importance, columns, first, staging, weights)
            encode16(x, weights, decoded, packed)
            copy(target + first * nbytes, packed, count * nbytes)
            errors, squares = _add_errors(x, decoded, errors), _add_squares(x, squares)
        write_result(result, errors, squares)
