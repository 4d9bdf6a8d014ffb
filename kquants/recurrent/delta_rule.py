"""The gated delta rule, row by row. The columns of a head's state are independent: a unit is 16 of them."""

import numba as nb

from kquants.compiler.decorators import inline, kernel
from kquants.records import DeltaRuleOp
from kquants.recurrent.state import kept_state, segment_rows, state_before
from kquants.simd import (
    copy,
    fma_f32,
    load_f32,
    load_f32x16,
    mul_f32,
    splat_f32,
    store_f32x16,
    sub_f32,
)
from kquants.threadpool.interpreter import arguments_of, batch_of

_rule_of = arguments_of(DeltaRuleOp)


@inline
def load_state(state: int, before: int, rows: int) -> None:
    """float32[rows, 16] at `state`: those at `before`, or zeros."""
    if before != 0:
        copy(state, before, 64 * rows)
    else:
        for i in range(rows):
            store_f32x16(state + 64 * i, splat_f32(nb.float32(0)))


@inline
def _step(state: int, n: int, q: int, k: int, v: int, y: int, decay: float, beta: float) -> None:
    """One row: state, float32[n, 16], and y, of 16 columns."""
    sum_k, sum_q, by_decay = splat_f32(nb.float32(0)), splat_f32(nb.float32(0)), splat_f32(decay)
    for i in range(n):
        s = mul_f32(load_f32x16(state + 64 * i), by_decay)
        store_f32x16(state + 64 * i, s)
        sum_k = fma_f32(s, splat_f32(load_f32(k + 4 * i)), sum_k)
    delta = mul_f32(splat_f32(beta), sub_f32(load_f32x16(v), sum_k))
    for i in range(n):
        s = fma_f32(splat_f32(load_f32(k + 4 * i)), delta, load_f32x16(state + 64 * i))
        store_f32x16(state + 64 * i, s)
        sum_q = fma_f32(s, splat_f32(load_f32(q + 4 * i)), sum_q)
    store_f32x16(y, sum_q)


@kernel("delta_rule")
def delta_rule(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: DeltaRuleOp; 16 columns of a head and all rows a unit. Scratch: a state, float32[key_dim, 16]."""
    given = _rule_of(op)
    n, columns = given.key_dim, given.value_dim // 16
    key_width, per_key_head = given.key_heads * n, given.heads // given.key_heads
    for unit in range(first, last):
        h, column = unit // columns, unit % columns
        key_head = h // per_key_head if given.grouped else h % given.key_heads
        offset = given.state_offset + 64 * n * unit
        for segment in range(batch_of(batch).segments):
            start, stop = segment_rows(batch, segment)
            load_state(scratch, state_before(batch, given.state_group, segment, offset), n)
            for t in range(start, stop):
                qkv, gates = given.qkv + t * given.qkv_bytes, given.gates + t * given.gates_bytes
                q = qkv + 4 * key_head * n
                value = 4 * (h * given.value_dim + 16 * column)
                decay, beta = load_f32(gates + 4 * h), load_f32(gates + 4 * (given.heads + h))
                v, y = qkv + 8 * key_width + value, given.y + t * given.y_bytes + value
                _step(scratch, n, q, q + 4 * key_width, v, y, decay, beta)
                kept = kept_state(batch, given.state_group, t, offset)
                if kept != 0:
                    copy(kept, scratch, 64 * n)
