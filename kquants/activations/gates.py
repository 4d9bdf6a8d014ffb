"""Gates of attention's output and of shared experts, and the soft cap of logits."""

import numba as nb

from kquants.activations.exponential import softplus, tanh, times_sigmoid
from kquants.compiler.decorators import kernel
from kquants.layout import PIECE
from kquants.records import SigmoidGateOp, SoftCapOp, SoftplusGateOp
from kquants.simd import (
    div_f32,
    keep_f32,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    store_f32x16,
    store_f32x16_part,
)
from kquants.threadpool.interpreter import arguments_of

_gate_of, _cap_of = arguments_of(SigmoidGateOp), arguments_of(SoftCapOp)
_softplus_of = arguments_of(SoftplusGateOp)


@kernel("sigmoid_gate")
def sigmoid_gate(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: SigmoidGateOp; a piece of a row a unit."""
    given = _gate_of(op)
    n = given.n
    pieces = (n + PIECE - 1) // PIECE
    for unit in range(first, last):
        t, start = unit // pieces, unit % pieces * PIECE
        x, gate = given.x + t * given.x_bytes, given.gate + t * given.gate_bytes
        for k in range(start, min(start + PIECE, n), 16):
            z = load_f32x16_part(gate + 4 * k, n - k)
            store_f32x16(x + 4 * k, times_sigmoid(load_f32x16(x + 4 * k), z))


@kernel("scale_by_sigmoid")
def scale_by_sigmoid(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: SigmoidGateOp with one value of gate for each row; a piece of a row a unit."""
    given = _gate_of(op)
    n = given.n
    pieces = (n + PIECE - 1) // PIECE
    for unit in range(first, last):
        t, start = unit // pieces, unit % pieces * PIECE
        x, z = given.x + t * given.x_bytes, splat_f32(load_f32(given.gate + t * given.gate_bytes))
        for k in range(start, min(start + PIECE, n), 16):
            v = times_sigmoid(load_f32x16(x + 4 * k), z)
            store_f32x16(x + 4 * k, keep_f32(v, n - k, nb.float32(0)))


@kernel("softplus_gate")
def softplus_gate(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: SoftplusGateOp; a value of the gate a unit, or with `group` 1 a piece of a row."""
    given = _softplus_of(op)
    n, group = given.n, given.group
    each = PIECE if group == 1 else group
    units = (n + each - 1) // each
    for unit in range(first, last):
        t, start = unit // units, unit % units * each
        x, gate, stop = given.x + t * given.x_bytes, given.gate + t * given.gate_bytes, min(start + each, n)
        factor = softplus(splat_f32(load_f32(gate + 4 * (start // group))))
        for k in range(start, stop, 16):
            if group == 1:
                factor = softplus(load_f32x16_part(gate + 4 * k, n - k))
            y = mul_f32(load_f32x16_part(x + 4 * k, stop - k), factor)
            store_f32x16_part(x + 4 * k, y, stop - k)


@kernel("soft_cap")
def soft_cap(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: SoftCapOp; a piece of a row a unit, so that all threads share the logits of one row."""
    given = _cap_of(op)
    n, cap = given.n, splat_f32(given.cap)
    pieces = (n + PIECE - 1) // PIECE
    for unit in range(first, last):
        t, start = unit // pieces, unit % pieces * PIECE
        y = given.y + t * given.y_bytes
        for k in range(start, min(start + PIECE, n), 16):
            store_f32x16(y + 4 * k, mul_f32(cap, tanh(div_f32(load_f32x16(y + 4 * k), cap))))
