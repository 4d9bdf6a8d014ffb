"""The delta rule with a decay for each channel of keys (Kimi delta attention): its inputs, and the scan.

The columns of a head's state are independent: a unit is 16 of them.
"""

import numba as nb

from kquants.activations.exponential import exp, softplus, times_sigmoid
from kquants.compiler.decorators import inline, kernel
from kquants.records import ChannelDeltaInputsOp, ChannelDeltaRuleOp
from kquants.recurrent.delta_inputs import normalize
from kquants.recurrent.delta_rule import load_state
from kquants.recurrent.state import kept_state, segment_rows, state_before
from kquants.simd import (
    add_f32,
    copy,
    fma_f32,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    square_root,
    store_f32x16,
    store_f32x16_part,
    sub_f32,
)
from kquants.threadpool.interpreter import arguments_of, batch_of

_inputs_of, _rule_of = arguments_of(ChannelDeltaInputsOp), arguments_of(ChannelDeltaRuleOp)


@inline
def _decays(x: int, dt_bias: int, n: int, a: float) -> None:
    """x = exp(a · softplus(x + dt_bias)), n values."""
    for k in range(0, n, 16):
        v = softplus(add_f32(load_f32x16_part(x + 4 * k, n - k), load_f32x16_part(dt_bias + 4 * k, n - k)))
        store_f32x16_part(x + 4 * k, exp(mul_f32(splat_f32(a), v)), n - k)


@inline
def _sigmoids(x: int, n: int) -> None:
    """x = sigmoid(x), n values."""
    for k in range(0, n, 16):
        v = times_sigmoid(splat_f32(nb.float32(1)), load_f32x16_part(x + 4 * k, n - k))
        store_f32x16_part(x + 4 * k, v, n - k)


@kernel("channel_delta_inputs")
def channel_delta_inputs(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: ChannelDeltaInputsOp; a row a unit."""
    given = _inputs_of(op)
    n, q_scale = given.head_dim, nb.float32(1) / square_root(nb.float32(given.head_dim))
    for t in range(first, last):
        row = t * given.row_bytes
        for h in range(given.heads):
            at = 4 * h * n
            normalize(given.q + row + at, n, given.eps, q_scale)
            normalize(given.k + row + at, n, given.eps, nb.float32(1))
            _decays(given.decay + row + at, given.dt_bias + at, n, load_f32(given.a + 4 * h))
        _sigmoids(given.beta + t * given.beta_bytes, given.heads)


@inline
def _step(state: int, n: int, q: int, k: int, v: int, decay: int, y: int, beta: float) -> None:
    """One row: state, float32[n, 16], and y, of 16 columns."""
    sum_k, sum_q = splat_f32(nb.float32(0)), splat_f32(nb.float32(0))
    for i in range(n):
        s = mul_f32(load_f32x16(state + 64 * i), splat_f32(load_f32(decay + 4 * i)))
        store_f32x16(state + 64 * i, s)
        sum_k = fma_f32(s, splat_f32(load_f32(k + 4 * i)), sum_k)
    delta = mul_f32(splat_f32(beta), sub_f32(load_f32x16(v), sum_k))
    for i in range(n):
        s = fma_f32(splat_f32(load_f32(k + 4 * i)), delta, load_f32x16(state + 64 * i))
        store_f32x16(state + 64 * i, s)
        sum_q = fma_f32(s, splat_f32(load_f32(q + 4 * i)), sum_q)
    store_f32x16(y, sum_q)


@kernel("channel_delta_rule")
def channel_delta_rule(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: ChannelDeltaRuleOp; 16 columns of a head and all rows a unit. Scratch: float32[head_dim, 16]."""
    given = _rule_of(op)
    n, columns = given.head_dim, given.head_dim // 16
    for unit in range(first, last):
        h, column = unit // columns, unit % columns
        head, value = 4 * h * n, 4 * (h * n + 16 * column)
        offset = given.state_offset + 64 * n * unit
        for segment in range(batch_of(batch).segments):
            start, stop = segment_rows(batch, segment)
            load_state(scratch, state_before(batch, given.state_group, segment, offset), n)
            for t in range(start, stop):
                row, beta = t * given.row_bytes, load_f32(given.beta + t * given.beta_bytes + 4 * h)
                q, k, decay = given.q + row + head, given.k + row + head, given.decay + row + head
                _step(scratch, n, q, k, given.v + row + value, decay, given.y + row + value, beta)
                kept = kept_state(batch, given.state_group, t, offset)
                if kept != 0:
                    copy(kept, scratch, 64 * n)
