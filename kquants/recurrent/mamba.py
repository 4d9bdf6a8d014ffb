"""Mamba-2: the gates of each head, and the scan.

The columns of a head's state are independent: a unit is 16 of them.
"""

import numba as nb

from kquants.activations.exponential import exp, softplus
from kquants.compiler.decorators import inline, kernel
from kquants.records import MambaInputsOp, MambaOp
from kquants.recurrent.delta_rule import load_state
from kquants.recurrent.state import kept_state, segment_rows, state_before
from kquants.simd import (
    add_f32,
    copy,
    first_f32,
    fma_f32,
    load_f32,
    load_f32x16,
    mul_f32,
    splat_f32,
    store_f32,
    store_f32x16,
)
from kquants.threadpool.interpreter import arguments_of, batch_of

_inputs_of, _mamba_of = arguments_of(MambaInputsOp), arguments_of(MambaOp)


@kernel("mamba_inputs")
def mamba_inputs(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: MambaInputsOp; a row a unit."""
    given = _inputs_of(op)
    for t in range(first, last):
        dt, gates = given.dt + t * given.dt_bytes, given.gates + t * given.gates_bytes
        for h in range(given.heads):
            step = softplus(add_f32(splat_f32(load_f32(dt + 4 * h)), splat_f32(load_f32(given.dt_bias + 4 * h))))
            decay = exp(mul_f32(splat_f32(load_f32(given.a + 4 * h)), step))
            store_f32(gates + 4 * h, first_f32(decay))
            store_f32(gates + 4 * (given.heads + h), first_f32(step))


@inline
def _step(state: int, n: int, b: int, c: int, x: int, y: int, decay: float, dt: float, d: float) -> None:
    """One row: state, float32[n, 16], and y, of 16 columns."""
    total, by_decay, values = splat_f32(nb.float32(0)), splat_f32(decay), load_f32x16(x)
    added = mul_f32(splat_f32(dt), values)
    for i in range(n):
        s = fma_f32(splat_f32(load_f32(b + 4 * i)), added, mul_f32(by_decay, load_f32x16(state + 64 * i)))
        store_f32x16(state + 64 * i, s)
        total = fma_f32(s, splat_f32(load_f32(c + 4 * i)), total)
    store_f32x16(y, fma_f32(splat_f32(d), values, total))


@kernel("mamba")
def mamba(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: MambaOp; 16 columns of a head and all rows a unit. Scratch: a state, float32[state_dim, 16]."""
    given = _mamba_of(op)
    n, columns = given.state_dim, given.head_dim // 16
    width = given.heads * given.head_dim
    for unit in range(first, last):
        h, column = unit // columns, unit % columns
        group = h // (given.heads // given.groups)
        offset = given.state_offset + 64 * n * unit
        d = load_f32(given.d + 4 * h)
        for segment in range(batch_of(batch).segments):
            start, stop = segment_rows(batch, segment)
            load_state(scratch, state_before(batch, given.state_group, segment, offset), n)
            for t in range(start, stop):
                xbc, gates = given.xbc + t * given.xbc_bytes, given.gates + t * given.gates_bytes
                value = 4 * (h * given.head_dim + 16 * column)
                b = xbc + 4 * (width + group * n)
                decay, dt = load_f32(gates + 4 * h), load_f32(gates + 4 * (given.heads + h))
                y = given.y + t * given.y_bytes + value
                _step(scratch, n, b, b + 4 * given.groups * n, xbc + value, y, decay, dt, d)
                kept = kept_state(batch, given.state_group, t, offset)
                if kept != 0:
                    copy(kept, scratch, 64 * n)
