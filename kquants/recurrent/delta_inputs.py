"""What the gated delta rule reads: q and k of unit length, and the gates of each head."""

import numba as nb

from kquants.activations.exponential import exp, softplus, times_sigmoid
from kquants.activations.moments import mean_square
from kquants.compiler.decorators import inline, kernel
from kquants.records import DeltaInputsOp
from kquants.simd import (
    add_f32,
    first_f32,
    load_f32,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    square_root,
    store_f32,
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


@kernel("delta_inputs")
def delta_inputs(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: DeltaInputsOp; a row a unit."""
    given = _inputs_of(op)
    n, one = given.key_dim, splat_f32(nb.float32(1))
    q_scale = nb.float32(1) / square_root(nb.float32(n))
    for t in range(first, last):
        qkv, gates = given.qkv + t * given.qkv_bytes, given.gates + t * given.gates_bytes
        alpha = given.alpha + t * given.alpha_bytes + given.alpha_offset
        beta = given.beta + t * given.beta_bytes + given.beta_offset
        for h in range(given.key_heads):
            normalize(qkv + 4 * h * n, n, given.eps, q_scale)
            normalize(qkv + 4 * (given.key_heads + h) * n, n, given.eps, nb.float32(1))
        for h in range(given.heads):
            at = 4 * (h // given.group * given.group_stride + h % given.group)
            dt = softplus(add_f32(splat_f32(load_f32(alpha + at)), splat_f32(load_f32(given.dt_bias + 4 * h))))
            decay = exp(mul_f32(splat_f32(load_f32(given.a + 4 * h)), dt))
            store_f32(gates + 4 * h, first_f32(decay))
            sigmoid = times_sigmoid(one, splat_f32(load_f32(beta + at)))
            store_f32(gates + 4 * (given.heads + h), first_f32(sigmoid))
