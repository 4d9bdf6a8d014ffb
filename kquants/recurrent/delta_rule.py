"""The gated delta rule, row by row. The columns of a head's state are independent: a unit is 32 of them.

A row takes one pass over the state. The products Sᵀ k with the state before a row are added up in the pass of the row
before it, beside that row's y = Sᵀ q; Sᵀ k of the decayed state is decay · Sᵀ k. Before the first row of a segment they
take a pass of their own. Both passes add in the same order: the bits do not depend on how rows are cut into segments.

`kquants.recurrent.state` says which pages a scan reads and writes. (Measured on Zen 4, one row: it takes 1.3 times as
long if the first pass prefetches the lines that the second one writes.)
"""

import numba as nb

from kquants.compiler.decorators import Vector, inline, kernel
from kquants.layout import STATE_COLUMNS
from kquants.records import DeltaRuleOp
from kquants.recurrent.state import keep_state, kept_state, load_state, segment_rows
from kquants.simd import (
    fma_f32,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    store_f32x16,
    store_f32x16_part,
    sub_f32,
)
from kquants.threadpool.interpreter import arguments_of, batch_of

_rule_of = arguments_of(DeltaRuleOp)


@inline
def products(state: int, n: int, k: int) -> tuple[Vector, Vector]:
    """Sᵀ k of 32 columns."""
    left = right = splat_f32(nb.float32(0))
    for i in range(n):
        k_i = splat_f32(load_f32(k + 4 * i))
        left = fma_f32(load_f32x16(state + 128 * i), k_i, left)
        right = fma_f32(load_f32x16(state + 128 * i + 64), k_i, right)
    return left, right


@inline
def _step(
    before: int, state: int, n: int, q: int, k: int, next_k: int, decay: float, left: Vector, right: Vector
) -> tuple[Vector, Vector, Vector, Vector]:
    """State = decay · before + k deltaᵀ of 32 columns, with the deltas `left` and `right`; (Sᵀ q, Sᵀ next_k)."""
    q_left = q_right = k_left = k_right = splat_f32(nb.float32(0))
    by_decay = splat_f32(decay)
    for i in range(n):
        k_i, q_i = splat_f32(load_f32(k + 4 * i)), splat_f32(load_f32(q + 4 * i))
        next_i = splat_f32(load_f32(next_k + 4 * i))
        s = fma_f32(k_i, left, mul_f32(by_decay, load_f32x16(before + 128 * i)))
        store_f32x16(state + 128 * i, s)
        q_left, k_left = fma_f32(s, q_i, q_left), fma_f32(s, next_i, k_left)
        s = fma_f32(k_i, right, mul_f32(by_decay, load_f32x16(before + 128 * i + 64)))
        store_f32x16(state + 128 * i + 64, s)
        q_right, k_right = fma_f32(s, q_i, q_right), fma_f32(s, next_i, k_right)
    return q_left, q_right, k_left, k_right


@inline
def delta(v: int, width: int, predicted: Vector, beta: float) -> Vector:
    """beta · (v - predicted), where Sᵀ k of the decayed state predicts v; 16 columns, of which the head has `width`."""
    return mul_f32(splat_f32(beta), sub_f32(load_f32x16_part(v, width), predicted))


@kernel("delta_rule")
def delta_rule(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: DeltaRuleOp; 32 columns of a head and all rows a unit."""
    given = _rule_of(op)
    n, parts = given.key_dim, (given.value_dim + STATE_COLUMNS - 1) // STATE_COLUMNS
    key_width, per_key_head = 4 * given.key_heads * n, given.heads // given.key_heads
    for unit in range(first, last):
        h, column = unit // parts, unit % parts * STATE_COLUMNS
        key_head = h // per_key_head if given.grouped else h % given.key_heads
        q_at, v_at = 4 * key_head * n, 4 * (h * given.value_dim + column)
        width = given.value_dim - column
        offset, nbytes = given.state_offset + 4 * STATE_COLUMNS * n * unit, 4 * STATE_COLUMNS * n
        for segment in range(batch_of(batch).segments):
            start, stop = segment_rows(batch, segment)
            state = kept_state(batch, given.state_group, stop - 1, offset)
            before = load_state(batch, given.state_group, segment, offset, state, nbytes)
            k_left, k_right = products(before, n, given.qkv + start * given.qkv_bytes + q_at + key_width)
            for t in range(start, stop):
                qkv, gates = given.qkv + t * given.qkv_bytes, given.gates + t * given.gates_bytes
                q, v, y = qkv + q_at, qkv + 2 * key_width + v_at, given.y + t * given.y_bytes + v_at
                decay, beta = load_f32(gates + 4 * h), load_f32(gates + 4 * (given.heads + h))
                left = delta(v, width, mul_f32(splat_f32(decay), k_left), beta)
                right = delta(v + 64, width - 16, mul_f32(splat_f32(decay), k_right), beta)
                k = q + key_width
                next_k = k + given.qkv_bytes if t + 1 < stop else k  # behind the last row, no products are needed
                y_left, y_right, k_left, k_right = _step(before, state, n, q, k, next_k, decay, left, right)
                store_f32x16_part(y, y_left, width)
                store_f32x16_part(y + 64, y_right, width - 16)
                keep_state(batch, given.state_group, t, offset, state, nbytes)
                before = state
