"""Mamba-1: the selective scan, whose decay differs for each channel and each row of the state.

A channel is a column of the state, and the columns are independent: a unit is 32 of them. `kquants.recurrent.state`
says which pages a scan reads and writes. The factors `a` of a unit lie channel by channel; scratch has them by rows of
the state.
"""

import math
from typing import Any

import numba as nb
from llvmlite import ir
from numba import types

from kquants.activations.exponential import exp2, softplus
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.layout import STATE_COLUMNS
from kquants.records import SelectiveScanOp
from kquants.recurrent.state import keep_state, kept_state, load_state, segment_rows
from kquants.simd import (
    F32,
    add_f32,
    all_f32,
    at_strides,
    clear,
    define,
    fma_f32,
    load,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    pointer,
    splat_f32,
    store_f32x16,
    store_f32x16_part,
    transposed,
)
from kquants.threadpool.interpreter import arguments_of, batch_of

_scan_of = arguments_of(SelectiveScanOp)


@define(types.none, types.int64, types.int64, types.int64)
def _store_rates(b: ir.IRBuilder, to: Any, a: Any, row_bytes: Any) -> None:
    """Transpose 16 rows of 16 values of `a`, `row_bytes` apart, to rows 128 bytes apart; times log2(e), at most 0."""
    zero, factor = ir.Constant(F32.vector, None), all_f32(math.log2(math.e))
    rows = transposed(b, [load(b, place, F32.vector) for place in at_strides(b, a, row_bytes, 16)])
    for place, v in zip(at_strides(b, to, ir.IntType(64)(128), 16), rows, strict=True):
        negative = b.select(b.fcmp_ordered(">", v, zero), zero, v)
        b.store(b.fmul(negative, factor), pointer(b, place, v.type), align=4)


@inline
def _load_rates(given: SelectiveScanOp, column: int, rates: int) -> None:
    """rates = a · log2(e) of 32 channels: float32[state_dim, 32], zeros for channels that there are not."""
    n, row_bytes = given.state_dim, 4 * given.state_dim
    width = min(given.channels - column, STATE_COLUMNS)
    if width < STATE_COLUMNS:
        clear(rates, 4 * STATE_COLUMNS * n)
    for k in range(0, width, 16):
        for i in range(0, n, 16):
            _store_rates(rates + 128 * i + 4 * k, given.a + (column + k) * row_bytes + 4 * i, row_bytes)


@inline
def _input(given: SelectiveScanOp, t: int, k: int) -> tuple[Vector, Vector]:
    """(step, step · x) of channels k … k + 15 of a row; there is no x behind the last channel."""
    n = given.channels - k
    x, dt = load_f32x16_part(given.x + t * given.x_bytes + 4 * k, n), given.dt + t * given.dt_bytes + 4 * k
    step = softplus(add_f32(load_f32x16_part(dt, n), load_f32x16_part(given.dt_bias + 4 * k, n)))
    return step, mul_f32(step, x)


@inline
def _output(given: SelectiveScanOp, t: int, k: int, y: Vector) -> None:
    """Store y + d · x of channels k … k + 15 of a row."""
    n = given.channels - k
    x, d = load_f32x16_part(given.x + t * given.x_bytes + 4 * k, n), load_f32x16_part(given.d + 4 * k, n)
    store_f32x16_part(given.y + t * given.y_bytes + 4 * k, fma_f32(d, x, y), n)


@inline
def _step(
    before: int, state: int, rates: int, n: int, bc: int, left: tuple[Vector, Vector], right: tuple[Vector, Vector]
) -> tuple[Vector, Vector]:
    """State = 2^(step · rates) · before + B addedᵀ of 32 columns; Sᵀ C of the new state.

    `left` and `right` are (step, added) of 16 columns each.
    """
    left_step, left_added = left
    right_step, right_added = right
    y_left = y_right = splat_f32(nb.float32(0))
    for i in range(n):
        b_i, c_i = splat_f32(load_f32(bc + 4 * i)), splat_f32(load_f32(bc + 4 * (n + i)))
        decay = exp2(mul_f32(left_step, load_f32x16(rates + 128 * i)))
        s = fma_f32(b_i, left_added, mul_f32(decay, load_f32x16(before + 128 * i)))
        store_f32x16(state + 128 * i, s)
        y_left = fma_f32(s, c_i, y_left)
        decay = exp2(mul_f32(right_step, load_f32x16(rates + 128 * i + 64)))
        s = fma_f32(b_i, right_added, mul_f32(decay, load_f32x16(before + 128 * i + 64)))
        store_f32x16(state + 128 * i + 64, s)
        y_right = fma_f32(s, c_i, y_right)
    return y_left, y_right


@kernel("selective_scan")
def selective_scan(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: SelectiveScanOp; 32 channels of all rows a unit. Scratch has float32[state_dim, 32]."""
    given = _scan_of(op)
    n, nbytes = given.state_dim, 4 * STATE_COLUMNS * given.state_dim
    for unit in range(first, last):
        k, offset = unit * STATE_COLUMNS, given.state_offset + nbytes * unit
        _load_rates(given, k, scratch)
        for segment in range(batch_of(batch).segments):
            start, stop = segment_rows(batch, segment)
            state = kept_state(batch, given.state_group, stop - 1, offset)
            before = load_state(batch, given.state_group, segment, offset, state, nbytes)
            for t in range(start, stop):
                bc = given.bc + t * given.bc_bytes
                left, right = _input(given, t, k), _input(given, t, k + 16)
                y_left, y_right = _step(before, state, scratch, n, bc, left, right)
                _output(given, t, k, y_left)
                _output(given, t, k + 16, y_right)
                keep_state(batch, given.state_group, t, offset, state, nbytes)
                before = state
