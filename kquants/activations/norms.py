"""RMSNorm and LayerNorm of rows and of heads.

Both are computed in passes over the values, which stay in the cache: moments, then normalized values.
"""

from typing import Any

import numba as nb

from kquants.activations.moments import mean, mean_square, variance
from kquants.activations.row_quantizer import quantize_values
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.records import AddNormOp, HeadNormOp, NormOp
from kquants.simd import (
    add_f32,
    keep_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    square_root,
    store_f32x16,
    store_f32x16_part,
    sub_f32,
)
from kquants.threadpool.interpreter import arguments_of, row_count

_norm_of, _add_norm_of, _head_norm_of = arguments_of(NormOp), arguments_of(AddNormOp), arguments_of(HeadNormOp)


@inline
def _inverse_root(square: float, eps: float) -> Vector:
    return splat_f32(nb.float32(1) / square_root(square + eps))


@inline
def _rms_moments(x: int, n: int, eps: float) -> tuple[Vector, Vector]:
    """0 and 1 / sqrt(mean(x²) + eps), in all lanes."""
    return splat_f32(nb.float32(0)), _inverse_root(mean_square(x, n), eps)


@inline
def _layer_moments(x: int, n: int, eps: float) -> tuple[Vector, Vector]:
    """mean(x) and 1 / sqrt(mean((x - mean(x))²) + eps), in all lanes."""
    center = mean(x, n)
    return splat_f32(center), _inverse_root(variance(x, center, n), eps)


@inline
def _normalized(x: int, center: Vector, scale: Vector, weight: int, bias: int, k: int, n: int) -> Vector:
    """Values k … k + 15 of a row of n normalized values; zeros from n on."""
    v = mul_f32(sub_f32(load_f32x16_part(x + 4 * k, n - k), center), scale)
    if weight != 0:
        v = mul_f32(v, load_f32x16_part(weight + 4 * k, n - k))
    if bias != 0:
        v = add_f32(v, load_f32x16_part(bias + 4 * k, n - k))
    return keep_f32(v, n - k, nb.float32(0))


def _define(name: str, moments: Any) -> None:
    """Register the kernels of a norm; `moments(x, n, eps)` are what is subtracted and what multiplies."""

    @kernel(f"{name}_norm")
    def norm(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Arguments: NormOp; a row a unit. Where h is null, it passes through scratch: n float32, whole vectors."""
        given, rows = _norm_of(op), row_count(op, batch)
        n = given.n
        for t in range(first, last):
            x = given.x + t * given.x_bytes
            h = given.h + t * given.h_bytes if given.h != 0 else scratch
            center, scale = moments(x, n, given.eps)
            for k in range(0, n, 16):
                store_f32x16(h + 4 * k, _normalized(x, center, scale, given.weight, given.bias, k, n))
            quantize_values(h, 0, n, n, t, rows, given.q8, given.super_q8)

    @kernel(f"add_{name}_norm")
    def add_norm(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Arguments: AddNormOp; a row a unit."""
        given = _add_norm_of(op)
        n, factor = given.n, splat_f32(given.scale)
        for t in range(first, last):
            x, y = given.x + t * given.x_bytes, given.y + t * given.y_bytes
            center, scale = moments(y, n, given.eps)
            for k in range(0, n, 16):
                v = mul_f32(factor, _normalized(y, center, scale, given.weight, given.bias, k, n))
                store_f32x16(x + 4 * k, add_f32(load_f32x16(x + 4 * k), v))


def _define_of_heads(name: str, moments: Any) -> None:
    @kernel(name)
    def norm_heads(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Arguments: HeadNormOp; a row a unit. The next head may begin right after the last value of one."""
        given = _head_norm_of(op)
        n = given.head_dim
        for t in range(first, last):
            for head in range(given.heads):
                x = given.x + t * given.x_bytes + 4 * head * n
                y = given.y + t * given.y_bytes + 4 * head * n
                weight = given.weight + 4 * head * given.weight_stride if given.weight != 0 else 0
                center, scale = moments(x, n, given.eps)
                for k in range(0, n, 16):
                    store_f32x16_part(y + 4 * k, _normalized(x, center, scale, weight, 0, k, n), n - k)


_define("rms", _rms_moments)
_define("layer", _layer_moments)
_define_of_heads("norm_heads", _rms_moments)
_define_of_heads("layer_norm_heads", _layer_moments)
