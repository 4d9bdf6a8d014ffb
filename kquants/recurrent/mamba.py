"""Mamba-2: the gates of each head, and the scan.

The columns of a head's state are independent: a unit is 32 of them. `kquants.recurrent.state` says which pages a scan
reads and writes.
"""

import numba as nb

from kquants.activations.exponential import exp, softplus
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.layout import STATE_COLUMNS
from kquants.records import MambaInputsOp, MambaOp
from kquants.recurrent.state import keep_state, kept_state, load_state, segment_rows
from kquants.simd import (
    add_f32,
    fma_f32,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    store_f32x16,
    store_f32x16_part,
)
from kquants.threadpool.interpreter import arguments_of, batch_of

_inputs_of, _mamba_of = arguments_of(MambaInputsOp), arguments_of(MambaOp)


@kernel("mamba_inputs")
def mamba_inputs(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: MambaInputsOp; a row a unit."""
    given = _inputs_of(op)
    for t in range(first, last):
        for h in range(0, given.heads, 16):
            dt, gates = given.dt + t * given.dt_bytes + 4 * h, given.gates + t * given.gates_bytes + 4 * h
            n = given.heads - h
            step = softplus(add_f32(load_f32x16_part(dt, n), load_f32x16_part(given.dt_bias + 4 * h, n)))
            store_f32x16_part(gates, exp(mul_f32(load_f32x16_part(given.a + 4 * h, n), step)), n)
            store_f32x16_part(gates + 4 * given.heads, step, n)


@inline
def _step(
    before: int, state: int, n: int, b: int, c: int, decay: float, left: Vector, right: Vector
) -> tuple[Vector, Vector]:
    """State = decay · before + B addedᵀ of 32 columns, where [left | right] is added; Sᵀ C of the new state."""
    y_left = y_right = splat_f32(nb.float32(0))
    by_decay = splat_f32(decay)
    for i in range(n):
        b_i, c_i = splat_f32(load_f32(b + 4 * i)), splat_f32(load_f32(c + 4 * i))
        s = fma_f32(b_i, left, mul_f32(by_decay, load_f32x16(before + 128 * i)))
        store_f32x16(state + 128 * i, s)
        y_left = fma_f32(s, c_i, y_left)
        s = fma_f32(b_i, right, mul_f32(by_decay, load_f32x16(before + 128 * i + 64)))
        store_f32x16(state + 128 * i + 64, s)
        y_right = fma_f32(s, c_i, y_right)
    return y_left, y_right


@kernel("mamba")
def mamba(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: MambaOp; 32 columns of a head and all rows a unit."""
    given = _mamba_of(op)
    n, parts = given.state_dim, (given.head_dim + STATE_COLUMNS - 1) // STATE_COLUMNS
    for unit in range(first, last):
        h, column = unit // parts, unit % parts * STATE_COLUMNS
        x_at, width = 4 * (h * given.head_dim + column), given.head_dim - column
        b_at = 4 * (given.heads * given.head_dim + h // (given.heads // given.groups) * n)
        offset, nbytes = given.state_offset + 4 * STATE_COLUMNS * n * unit, 4 * STATE_COLUMNS * n
        d = splat_f32(load_f32(given.d + 4 * h))
        for segment in range(batch_of(batch).segments):
            start, stop = segment_rows(batch, segment)
            state = kept_state(batch, given.state_group, stop - 1, offset)
            before = load_state(batch, given.state_group, segment, offset, state, nbytes)
            for t in range(start, stop):
                xbc, gates = given.xbc + t * given.xbc_bytes, given.gates + t * given.gates_bytes
                left, right = load_f32x16_part(xbc + x_at, width), load_f32x16_part(xbc + x_at + 64, width - 16)
                decay, dt = load_f32(gates + 4 * h), splat_f32(load_f32(gates + 4 * (given.heads + h)))
                b, y = xbc + b_at, given.y + t * given.y_bytes + x_at
                c = b + 4 * given.groups * n
                y_left, y_right = _step(before, state, n, b, c, decay, mul_f32(dt, left), mul_f32(dt, right))
                store_f32x16_part(y, fma_f32(d, left, y_left), width)
                store_f32x16_part(y + 64, fma_f32(d, right, y_right), width - 16)
                keep_state(batch, given.state_group, t, offset, state, nbytes)
                before = state
