"""Activation functions of feed-forward layers, alone or times a second projection (GLU)."""

from typing import Any

import numba as nb

from kquants.activations.error_function import erf
from kquants.activations.exponential import expm1, times_sigmoid
from kquants.activations.row_quantizer import quantize_values
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.layout import PIECE
from kquants.records import ActivationOp
from kquants.simd import (
    add_f32,
    fma_f32,
    keep_f32,
    larger_f32,
    load_f32x16,
    load_f32x16_part,
    min_f32,
    mul_f32,
    splat_f32,
    store_f32x16,
    sub_f32,
    where_less_f32,
)
from kquants.threadpool.interpreter import arguments_of, row_count

_activation_of = arguments_of(ActivationOp)


# gelu(z) = z sigmoid(z (_GELU_1 + _GELU_3 z²)), with 2 sqrt(2 / pi) and 0.044715 times that.
_GELU_1 = nb.float32(1.5957691216057308)
_GELU_3 = nb.float32(0.07135481282553525)
_HALF_ROOT = nb.float32(0.7071067811865476)


@inline
def _silu(z: Vector, given: Any) -> Vector:
    return times_sigmoid(z, z)


@inline
def _gelu(z: Vector, given: Any) -> Vector:
    """z / 2 · (1 + tanh(sqrt(2 / pi) (z + 0.044715 z³))), the tanh approximation of GELU.

    As (1 + tanh(u)) / 2 is sigmoid(2u), nothing cancels where z is negative.
    """
    cubic = fma_f32(mul_f32(z, z), splat_f32(_GELU_3), splat_f32(_GELU_1))
    return times_sigmoid(z, mul_f32(z, cubic))


@inline
def _gelu_erf(z: Vector, given: Any) -> Vector:
    """z / 2 · (1 + erf(z / sqrt(2))), GELU itself."""
    one, half = splat_f32(nb.float32(1)), splat_f32(nb.float32(0.5))
    return mul_f32(mul_f32(half, z), add_f32(one, erf(mul_f32(z, splat_f32(_HALF_ROOT)))))


@inline
def _relu2(z: Vector, given: Any) -> Vector:
    """max(z, 0)²; NaN stays NaN."""
    positive = larger_f32(splat_f32(nb.float32(0)), z)
    return mul_f32(positive, positive)


@inline
def _xielu(z: Vector, given: Any) -> Vector:
    """α_p z² + β z for z > 0, else α_n (expm1(min(z, eps)) - z) + β z (arXiv 2411.13010)."""
    alpha_p, alpha_n = splat_f32(given.parameter_0), splat_f32(given.parameter_1)
    linear, least = mul_f32(splat_f32(given.parameter_2), z), splat_f32(given.parameter_3)
    positive = mul_f32(mul_f32(alpha_p, z), z)
    negative = mul_f32(sub_f32(expm1(min_f32(z, least)), z), alpha_n)
    return add_f32(where_less_f32(splat_f32(nb.float32(0)), z, positive, negative), linear)


@inline
def _clamped_silu(z: Vector, given: Any) -> Vector:
    """min(z, limit) · sigmoid(alpha · min(z, limit)); NaN stays NaN."""
    limit, alpha = splat_f32(given.parameter_0), splat_f32(given.parameter_1)
    z = where_less_f32(limit, z, limit, z)
    return times_sigmoid(z, mul_f32(alpha, z))


@inline
def _clamped_and_one(u: Vector, given: Any) -> Vector:
    """min(max(u, -limit), limit) + 1; NaN stays NaN."""
    most, least = splat_f32(given.parameter_0), splat_f32(-given.parameter_0)
    u = where_less_f32(most, u, most, where_less_f32(u, least, least, u))
    return add_f32(u, splat_f32(nb.float32(1)))


@inline
def _as_it_is(u: Vector, given: Any) -> Vector:
    return u


def _define(name: str, function: Any, factor: Any = _as_it_is) -> None:
    """Register the kernel of an activation: `function(z, arguments)` of 16 values of gate times `factor` of those of
    up."""

    @kernel(name)
    def activate(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Arguments: ActivationOp; a piece of a row a unit. What is quantized passes through scratch: PIECE float32."""
        given = _activation_of(op)
        n = given.n
        as_floats = given.q8 == 0 and given.super_q8 == 0
        pieces = (n + PIECE - 1) // PIECE
        for unit in range(first, last):
            t, start = unit // pieces, unit % pieces * PIECE
            stop = min(start + PIECE, n)
            gate, up = given.gate + t * given.gate_bytes, given.up + t * given.up_bytes + given.up_offset
            to = gate if as_floats else scratch - 4 * start
            for k in range(start, stop, 16):
                v = function(load_f32x16(gate + 4 * k), given)
                if given.up != 0:
                    v = mul_f32(v, factor(load_f32x16_part(up + 4 * k, n - k), given))
                store_f32x16(to + 4 * k, keep_f32(v, n - k, nb.float32(0)))
            if not as_floats:
                quantize_values(to, start, stop, n, t, row_count(op, batch), given.q8, given.super_q8)


_define("swiglu", _silu)
_define("geglu", _gelu)
_define("geglu_erf", _gelu_erf)
_define("relu2", _relu2)
_define("xielu", _xielu)
_define("clamped_swiglu", _clamped_silu, _clamped_and_one)
