"""Copies the row of x to each of its slots, as float32, or quantized as the formats of the experts require."""

import numba as nb

from kquants.activations.row_quantizer import quantize_values
from kquants.compiler.decorators import kernel
from kquants.layout import PIECE
from kquants.records import GatherOp
from kquants.simd import keep_f32, load_f32, load_f32x16_part, load_i32, mul_f32, splat_f32, store_f32x16
from kquants.threadpool.interpreter import arguments_of, row_count

_gather_of = arguments_of(GatherOp)


@kernel("gather")
def gather(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: GatherOp; a piece of a slot a unit. Without h, values pass through scratch: PIECE float32."""
    given = _gather_of(op)
    n = given.n
    pieces = (n + PIECE - 1) // PIECE
    for unit in range(first, last):
        slot, start = unit // pieces, unit % pieces * PIECE
        stop, choice = min(start + PIECE, n), load_i32(given.choices + 4 * slot)
        x = given.x + choice // given.used * given.x_bytes
        weight = load_f32(given.weights + 4 * choice) if given.weights != 0 else nb.float32(1)
        h = given.h + slot * given.h_bytes if given.h != 0 else scratch - 4 * start
        for k in range(start, stop, 16):
            v = mul_f32(splat_f32(weight), load_f32x16_part(x + 4 * k, n - k))
            store_f32x16(h + 4 * k, keep_f32(v, n - k, nb.float32(0)))
        if given.q8 != 0 or given.super_q8 != 0:
            quantize_values(h, start, stop, n, slot, row_count(op, batch), given.q8, given.super_q8)
