"""The delta rule with a decay for each channel of keys (Kimi delta attention): its inputs, and the scan.

The scan is that of `kquants.recurrent.delta_rule`, which says why a row takes one pass over the state. A unit is 32
columns of a head. Here Sᵀ k of the decayed state is Sᵀ (decay · k) of the state before.
"""

import numba as nb

from kquants.activations.exponential import exp, softplus, times_sigmoid
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.layout import STATE_COLUMNS
from kquants.records import ChannelDeltaInputsOp, ChannelDeltaRuleOp
from kquants.recurrent.delta_inputs import normalize
from kquants.recurrent.delta_rule import delta, products
from kquants.recurrent.state import keep_state, kept_state, load_state, segment_rows
from kquants.simd import (
    add_f32,
    fma_f32,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    square_root,
    store_f32x16,
    store_f32x16_part,
)
from kquants.threadpool.interpreter import arguments_of, batch_of

_inputs_of, _rule_of = arguments_of(ChannelDeltaInputsOp), arguments_of(ChannelDeltaRuleOp)


@inline
def _decay(decay: int, dt_bias: int, k: int, decayed_k: int, n: int, a: float) -> None:
    """decay = exp(a · softplus(decay + dt_bias)) and decayed_k = decay · k of a head."""
    for i in range(0, 4 * n, 64):
        width = n - i // 4
        v = softplus(add_f32(load_f32x16_part(decay + i, width), load_f32x16_part(dt_bias + i, width)))
        v = exp(mul_f32(splat_f32(a), v))
        store_f32x16_part(decay + i, v, width)
        store_f32x16_part(decayed_k + i, mul_f32(v, load_f32x16_part(k + i, width)), width)


@kernel("channel_delta_inputs")
def channel_delta_inputs(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: ChannelDeltaInputsOp; a row has a unit for each head, then one for each 16 betas."""
    given = _inputs_of(op)
    n, units = given.head_dim, given.heads + (given.heads + 15) // 16
    q_scale, one = nb.float32(1) / square_root(nb.float32(n)), splat_f32(nb.float32(1))
    for unit in range(first, last):
        t, h = unit // units, unit % units
        if h < given.heads:
            at = t * given.row_bytes + 4 * h * n
            normalize(given.q + at, n, given.eps, q_scale)
            normalize(given.k + at, n, given.eps, nb.float32(1))
            bias, a = given.dt_bias + 4 * h * n, load_f32(given.a + 4 * h)
            _decay(given.decay + at, bias, given.k + at, given.decayed_k + at, n, a)
        else:
            start = 16 * (h - given.heads)
            beta, width = given.beta + t * given.beta_bytes + 4 * start, given.heads - start
            store_f32x16_part(beta, times_sigmoid(one, load_f32x16_part(beta, width)), width)


@inline
def _step(
    before: int, state: int, n: int, q: int, k: int, decay: int, next_k: int, left: Vector, right: Vector
) -> tuple[Vector, Vector, Vector, Vector]:
    """State = diag(decay) before + k deltaᵀ of 32 columns, with the deltas `left` and `right`; (Sᵀ q, Sᵀ next_k)."""
    q_left = q_right = k_left = k_right = splat_f32(nb.float32(0))
    for i in range(n):
        k_i, q_i = splat_f32(load_f32(k + 4 * i)), splat_f32(load_f32(q + 4 * i))
        decay_i, next_i = splat_f32(load_f32(decay + 4 * i)), splat_f32(load_f32(next_k + 4 * i))
        s = fma_f32(k_i, left, mul_f32(decay_i, load_f32x16(before + 128 * i)))
        store_f32x16(state + 128 * i, s)
        q_left, k_left = fma_f32(s, q_i, q_left), fma_f32(s, next_i, k_left)
        s = fma_f32(k_i, right, mul_f32(decay_i, load_f32x16(before + 128 * i + 64)))
        store_f32x16(state + 128 * i + 64, s)
        q_right, k_right = fma_f32(s, q_i, q_right), fma_f32(s, next_i, k_right)
    return q_left, q_right, k_left, k_right


@kernel("channel_delta_rule")
def channel_delta_rule(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: ChannelDeltaRuleOp; 32 columns of a head and all rows a unit."""
    given = _rule_of(op)
    n, parts = given.head_dim, (given.head_dim + STATE_COLUMNS - 1) // STATE_COLUMNS
    for unit in range(first, last):
        h, column = unit // parts, unit % parts * STATE_COLUMNS
        head, width = 4 * h * n, n - column
        offset, nbytes = given.state_offset + 4 * STATE_COLUMNS * n * unit, 4 * STATE_COLUMNS * n
        for segment in range(batch_of(batch).segments):
            start, stop = segment_rows(batch, segment)
            state = kept_state(batch, given.state_group, stop - 1, offset)
            before = load_state(batch, given.state_group, segment, offset, state, nbytes)
            k_left, k_right = products(before, n, given.decayed_k + start * given.row_bytes + head)
            for t in range(start, stop):
                at, beta = t * given.row_bytes + head, load_f32(given.beta + t * given.beta_bytes + 4 * h)
                v, y = given.v + at + 4 * column, given.y + at + 4 * column
                left, right = delta(v, width, k_left, beta), delta(v + 64, width - 16, k_right, beta)
                next_k = given.decayed_k + at + (given.row_bytes if t + 1 < stop else 0)
                y_left, y_right, k_left, k_right = _step(
                    before, state, n, given.q + at, given.k + at, given.decay + at, next_k, left, right
                )
                store_f32x16_part(y, y_left, width)
                store_f32x16_part(y + 64, y_right, width - 16)
                keep_state(batch, given.state_group, t, offset, state, nbytes)
                before = state
