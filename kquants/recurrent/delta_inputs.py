"""What the gated delta rule reads: q and k of unit length, and the gates of each head."""

import numba as nb

from kquants.activations.exponential import exp, softplus, times_sigmoid
from kquants.activations.moments import mean_square
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.records import DeltaInputsOp
from kquants.simd import (
    add_f32,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    square_root,
    store_f32,
    store_f32x16,
    store_f32x16_part,
)
from kquants.threadpool.interpreter import arguments_of

_inputs_of = arguments_of(DeltaInputsOp)


@inline
def normalize(x: int, n: int, eps: float, scale: float) -> None:
    """x = scale · x / sqrt(Σ x² + eps)."""
    factor = splat_f32(scale / square_root(nb.float32(n) * mean_square(x, n) + eps))
    for k in range(0, n, 16):
        store_f32x16_part(x + 4 * k, mul_f32(load_f32x16_part(x + 4 * k, n - k), factor), n - k)


@inline
def _values_of_heads(x: int, h: int, given: DeltaInputsOp, scratch: int) -> Vector:
    """The alphas or betas of 16 heads, from head h on, of a row at x."""
    store_f32x16(scratch, splat_f32(nb.float32(0)))
    for i in range(min(16, given.heads - h)):
        place = (h + i) // given.group * given.group_stride + (h + i) % given.group
        store_f32(scratch + 4 * i, load_f32(x + 4 * place))
    return load_f32x16(scratch)


@inline
def _write_gates(given: DeltaInputsOp, t: int, h: int, scratch: int) -> None:
    """The gates of 16 heads of a row, from head h on."""
    alpha = given.alpha + t * given.alpha_bytes + given.alpha_offset
    beta = given.beta + t * given.beta_bytes
    gates, n = given.gates + t * given.gates_bytes + 4 * h, given.heads - h
    bias, a = load_f32x16_part(given.dt_bias + 4 * h, n), load_f32x16_part(given.a + 4 * h, n)
    decay = exp(mul_f32(a, softplus(add_f32(_values_of_heads(alpha, h, given, scratch), bias))))
    store_f32x16_part(gates, decay, n)
    sigmoid = times_sigmoid(splat_f32(nb.float32(1)), _values_of_heads(beta, h, given, scratch))
    store_f32x16_part(gates + 4 * given.heads, sigmoid, n)


@kernel("delta_inputs")
def delta_inputs(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: DeltaInputsOp; units of a row: each key head, then each 16 heads' gates. Scratch: float32[16]."""
    given = _inputs_of(op)
    n, units = given.key_dim, given.key_heads + (given.heads + 15) // 16
    q_scale = nb.float32(1) / square_root(nb.float32(n))
    for unit in range(first, last):
        t, part = unit // units, unit % units
        if part < given.key_heads:
            q = given.qkv + t * given.qkv_bytes + 4 * part * n
            normalize(q, n, given.eps, q_scale)
            normalize(q + 4 * given.key_heads * n, n, given.eps, nb.float32(1))
        else:
            _write_gates(given, t, 16 * (part - given.key_heads), scratch)
