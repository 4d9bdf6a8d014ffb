"""Rows of activations to quantized rows: `q8` for formats without super-blocks, `super_q8` for those with them."""

from typing import Any

from kquants.activations.quantized import quantize_block, quantize_group
from kquants.activations.super_quantized import int16_place, store_int16, super_block_quantizer
from kquants.compiler.decorators import inline, kernel
from kquants.layout import BLOCK_GROUP_BYTES, PIECE, SUPER_GROUP_BYTES, X_BLOCK_BYTES, X_GROUP
from kquants.records import QuantizeOp
from kquants.threadpool.interpreter import arguments_of, row_count
from kquants.tuning import Tuning, tuning

_quantize_of = arguments_of(QuantizeOp)


def row_quantizer(tuning: Tuning) -> Any:
    """`quantize(x, start, stop, n, t, rows, q8, super_q8)`: values `start` … `stop`, of n, of row t of `rows`.

    They are float32 at `x`; `start` is a multiple of 256. They are written to each of q8 and super_q8 that is not null.
    """
    quantize_super_block, amx, decode_rows = super_block_quantizer(tuning), tuning.amx, tuning.decode_rows

    @inline
    def quantize(x: int, start: int, stop: int, n: int, t: int, rows: int, q8: int, super_q8: int) -> None:
        for k in range(start, stop, X_GROUP):
            place = k // X_GROUP * rows + t
            if super_q8 != 0:
                group = super_q8 + place * SUPER_GROUP_BYTES
                quantize_super_block(x + 4 * k, group)
                if amx and rows > decode_rows:
                    store_int16(group, super_q8 + int16_place(n, rows, place))
            if q8 != 0:
                group = q8 + place * BLOCK_GROUP_BYTES
                if stop - k >= X_GROUP:
                    quantize_group(x + 4 * k, group)
                else:
                    for i in range(0, stop - k, 32):
                        quantize_block(x + 4 * (k + i), group + i, group + X_GROUP + i // 32 * X_BLOCK_BYTES)

    return quantize


quantize_values = row_quantizer(tuning())


@kernel("quantize")
def quantize_rows(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: QuantizeOp; a piece of a row a unit."""
    given = _quantize_of(op)
    n = given.n
    pieces = (n + PIECE - 1) // PIECE
    for unit in range(first, last):
        t, start = unit // pieces, unit % pieces * PIECE
        stop = min(start + PIECE, n)
        x, rows = given.x + t * given.x_bytes, row_count(op, batch)
        quantize_values(x, start, stop, n, t, rows, given.q8, given.super_q8)
