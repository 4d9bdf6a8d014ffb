"""Sums with the residual stream and biases, and the rows of it whose logits are wanted."""

import numba as nb

from kquants.compiler.decorators import kernel
from kquants.layout import PIECE
from kquants.records import AddBiasOp, AddScaledOp, KeepOutputsOp
from kquants.simd import add_f32, copy, keep_f32, load_f32x16, load_f32x16_part, mul_f32, splat_f32, store_f32x16
from kquants.threadpool.interpreter import arguments_of, batch_row, row_count

_bias_of, _scaled_of, _outputs_of = arguments_of(AddBiasOp), arguments_of(AddScaledOp), arguments_of(KeepOutputsOp)


@kernel("keep_outputs")
def keep_outputs(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: KeepOutputsOp; a piece of all rows a unit.

    No row is overwritten before it is read, as outputs come in the order of the rows.
    """
    given, start = _outputs_of(op), first * 4 * PIECE
    x, row_bytes = given.x + start, given.x_bytes
    nbytes = min(last * 4 * PIECE, row_bytes) - start
    for t in range(row_count(op, batch)):
        row = batch_row(op, batch, t)
        if row != t:
            copy(x + t * row_bytes, x + row * row_bytes, nbytes)


@kernel("add_bias")
def add_bias(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: AddBiasOp; a piece of a row a unit."""
    given = _bias_of(op)
    n = given.n
    pieces = (n + PIECE - 1) // PIECE
    for unit in range(first, last):
        t, start = unit // pieces, unit % pieces * PIECE
        y = given.y + t * given.y_bytes
        for k in range(start, min(start + PIECE, n), 16):
            bias = load_f32x16_part(given.bias + 4 * k, n - k)
            store_f32x16(y + 4 * k, add_f32(load_f32x16(y + 4 * k), bias))


@kernel("add_scaled")
def add_scaled(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: AddScaledOp; a piece of a row a unit. Products are rounded before they are added."""
    given = _scaled_of(op)
    n, scale_x, scale_y = given.n, splat_f32(given.scale_x), splat_f32(given.scale_y)
    pieces = (n + PIECE - 1) // PIECE
    for unit in range(first, last):
        t, start = unit // pieces, unit % pieces * PIECE
        x, y = given.x + t * given.x_bytes, given.y + t * given.y_bytes
        for k in range(start, min(start + PIECE, n), 16):
            v = mul_f32(scale_x, load_f32x16(x + 4 * k))
            if given.y != 0:
                v = add_f32(v, mul_f32(scale_y, load_f32x16_part(y + 4 * k, n - k)))
            store_f32x16(x + 4 * k, keep_f32(v, n - k, nb.float32(0)))
