"""Activation functions of feed-forward layers, alone or times a second projection (GLU)."""

from typing import Any

import numba as nb

from kquants.activations.exponential import exp
from kquants.activations.row_quantizer import quantize_values
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.layout import PIECE
from kquants.records import ActivationOp
from kquants.simd import (
    add_f32,
    div_f32,
    keep_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    store_f32x16,
    sub_f32,
)
from kquants.threadpool.interpreter import arguments_of, row_count

_activation_of = arguments_of(ActivationOp)


@inline
def _silu(z: Vector, given: Any) -> Vector:
    """z · sigmoid(z)."""
    one, zero = splat_f32(nb.float32(1)), splat_f32(nb.float32(0))
    return div_f32(z, add_f32(one, exp(sub_f32(zero, z))))


def _define(name: str, function: Any) -> None:
    """Register the kernel of an activation: `function(z, arguments)` of 16 values."""

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
                    v = mul_f32(v, load_f32x16_part(up + 4 * k, n - k))
                store_f32x16(to + 4 * k, keep_f32(v, n - k, nb.float32(0)))
            if not as_floats:
                quantize_values(to, start, stop, n, t, row_count(op, batch), given.q8, given.super_q8)


_define("swiglu", _silu)
