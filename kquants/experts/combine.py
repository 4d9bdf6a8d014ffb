"""Adds up the results of the slots of each row, times their weights."""

import numba as nb

from kquants.compiler.decorators import kernel
from kquants.layout import PIECE
from kquants.records import CombineOp
from kquants.simd import (
    add_f32,
    keep_f32,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    load_i32,
    mul_f32,
    splat_f32,
    store_f32x16,
)
from kquants.threadpool.interpreter import arguments_of

_combine_of = arguments_of(CombineOp)


@kernel("combine")
def combine(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: CombineOp; a piece of a row a unit. Products are rounded before they are added."""
    given = _combine_of(op)
    n, used, scale = given.n, given.used, splat_f32(given.scale)
    pieces = (n + PIECE - 1) // PIECE
    for unit in range(first, last):
        t, start = unit // pieces, unit % pieces * PIECE
        x, choices = given.x + t * given.x_bytes, 4 * used * t
        for k in range(start, min(start + PIECE, n), 16):
            total = splat_f32(nb.float32(0))
            for j in range(choices, choices + 4 * used, 4):
                y = given.y + load_i32(given.slots + j) * given.y_bytes + 4 * k
                weight = load_f32(given.weights + j) if given.weights != 0 else nb.float32(1)
                total = add_f32(total, mul_f32(splat_f32(weight), load_f32x16_part(y, n - k)))
            total = mul_f32(scale, total)
            if given.accumulate:
                total = add_f32(load_f32x16(x + 4 * k), total)
            store_f32x16(x + 4 * k, keep_f32(total, n - k, nb.float32(0)))
