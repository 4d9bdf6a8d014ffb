"""Encoders of K-quants and of the formats of grids: super-blocks of 256 weights whose blocks, of 32 or 16 weights,
share a float16 or two.

Sixteen blocks are encoded at once, one per SIMD lane: two super-blocks of eight blocks, or one of sixteen. A format
provides a search, which finds scales, minima and q, and `pack`, which writes them in the format's layout.
"""

from typing import Any

import numba as nb

from kquants.compiler.decorators import Vector, inline, kernel
from kquants.encoders.encode_result import first_beyond, write_bad, write_result
from kquants.encoders.lane_ops import across, all_lanes, quotient, transpose
from kquants.encoders.vectors import stack_buffer
from kquants.simd import (
    add_square,
    copy,
    keep_f32,
    larger_f32,
    load_f32x16,
    mul_f32,
    store_f16x16,
    store_f32x16,
    store_f32x16_as_i8,
    sub_f32,
    zero_f64,
)

_SUPER_BLOCK = 4 * 256
"""Bytes of a super-block as float32."""

_LEAST_WEIGHT = 2.0**-20
"""Least weight, where the largest of a super-block is 1, so that the error of every column counts."""


@inline
def _as_it_is(q: Vector) -> Vector:
    return q


def define(
    name: str, nbytes: int, limit: float, n: int, search: Any, pack: Any, unit: float = 1, code: Any = _as_it_is
) -> None:
    """Register the encoder of a format with blocks of `n` weights and super-blocks of `nbytes` bytes.

    `search(x, w, q) -> (scale, minimum, d, dmin)` writes q; x, w and q are addresses of n vectors, and weights decode
    to unit · d · scale · q - dmin · minimum. `pack(codes, scales, minima, d, dmin, target)` takes the addresses of 256
    bytes code(q) in the order of the weights, of a byte for the scale and for the minimum of each block, of the float16
    d and dmin, and of the super-block to write. `limit` is the largest magnitude that can be encoded.
    """
    together, limit = n // 16, nb.float32(limit)
    blocks, size = 16 // together, together * _SUPER_BLOCK
    _, largest_across = across(blocks)
    take_buffer = stack_buffer(5 * size + 2 * 16 + 2 * 32)

    @inline
    def load(source: int, to: int) -> None:
        """Load sixteen blocks, one per lane."""
        for k in range(0, n, 16):
            transpose(source + 4 * k, 4 * n, to + 64 * k)

    @inline
    def load_weights(importance: int, columns: int, first: int, staging: int, w: int) -> None:
        """Load the importance of the weights, scaled so that the largest of each super-block is 1."""
        for i in range(together):
            copy(staging + _SUPER_BLOCK * i, importance + (first + i) * _SUPER_BLOCK % (4 * columns), _SUPER_BLOCK)
        load(staging, w)
        most = all_lanes(0)
        for i in range(0, 64 * n, 64):
            most = larger_f32(load_f32x16(w + i), most)
        most = largest_across(most)
        for i in range(0, 64 * n, 64):
            store_f32x16(w + i, larger_f32(quotient(load_f32x16(w + i), most), all_lanes(_LEAST_WEIGHT)))

    @inline
    def add_errors(x: int, q: int, a: Vector, b: Vector, live: int, errors: Vector) -> Vector:
        for i in range(0, 64 * n, 64):
            decoded = sub_f32(mul_f32(a, load_f32x16(q + i)), b)
            errors = add_square(errors, keep_f32(sub_f32(load_f32x16(x + i), decoded), live, 0))
        return errors

    @inline
    def add_squares(x: int, live: int, squares: Vector) -> Vector:
        for i in range(0, 64 * n, 64):
            squares = add_square(squares, keep_f32(load_f32x16(x + i), live, 0))
        return squares

    @inline
    def in_order(q: int, staging: int, codes: int) -> None:
        """Write the codes of q as bytes in the order of the weights."""
        for k in range(0, n, 16):
            transpose(q + 64 * k, 64, staging)
            for i in range(16):
                store_f32x16_as_i8(codes + n * i + k, code(load_f32x16(staging + 64 * i)))

    @kernel(f"encode_{name}", arguments=6)
    def encode(source: int, rows: int, columns: int, importance: int, target: int, result: int) -> None:
        """See `kquants.encoders`."""
        staging = take_buffer()
        x, w, q, codes = staging + size, staging + 2 * size, staging + 3 * size, staging + 4 * size
        scales, minima, d_at, dmin_at = codes + size, codes + size + 16, codes + size + 32, codes + size + 64
        errors, squares, total = zero_f64(), zero_f64(), rows * columns // 256
        for i in range(0, 64 * n, 64):
            store_f32x16(w + i, all_lanes(1))
        for first in range(0, total, together):
            count = min(together, total - first)
            given, live = source + first * _SUPER_BLOCK, blocks * count
            bad = first_beyond(given, 256 * count, limit)
            if bad >= 0:
                write_bad(result, 256 * first + bad)
                return
            if count < together:  # a single super-block is left: it is encoded twice, side by side
                for i in range(together):
                    copy(staging + _SUPER_BLOCK * i, given, _SUPER_BLOCK)
                given = staging
            load(given, x)
            if importance != 0:
                load_weights(importance, columns, first, staging, w)
            scale, minimum, d, dmin = search(x, w, q)
            a = mul_f32(mul_f32(d, all_lanes(unit)), scale)
            errors = add_errors(x, q, a, mul_f32(dmin, minimum), live, errors)
            squares = add_squares(x, live, squares)
            in_order(q, staging, codes)
            store_f32x16_as_i8(scales, scale)
            store_f32x16_as_i8(minima, minimum)
            store_f16x16(d_at, d)
            store_f16x16(dmin_at, dmin)
            for i in range(count):
                j, to = blocks * i, target + nbytes * (first + i)
                pack(codes + 256 * i, scales + j, minima + j, d_at + 2 * j, dmin_at + 2 * j, to)
        write_result(result, errors, squares)
