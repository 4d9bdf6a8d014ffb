"""Formats without super-blocks in AMX tiles, see `kquants.matmul.amx`.

One instruction makes the dot products of a block for 16 × 16 rows. Its latency, the way of the products through memory
and the arithmetic that follows overlap if they are about different blocks: while block
k is multiplied, the products of block k - 1 are stored and those of block k - 4 are scaled.
"""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.formats.packed_bytes import Value
from kquants.formats.unpacking import BLOCK_WEIGHTS
from kquants.layout import DOTS_BYTES
from kquants.matmul.amx import DOT_BYTES, DOTS, X_ROWS, W, X, add_dots, clear_dots, load_rows, store_dots
from kquants.matmul.blocks import FloatScales
from kquants.matmul.layouts import ByteLayout
from kquants.matmul.split_k import XParts
from kquants.simd import F32, I32, at, define, load, store_vectors

_TURNS = DOTS[:2]
"""Registers used in turn: storing one need not wait for the products in the next."""

_DELAY = 4
"""Blocks after which products are scaled: those just stored cannot be loaded yet. (2: Q8_0 5 % slower; 5: no gain.)"""

_PLACES = DOTS_BYTES // DOT_BYTES
"""Blocks whose products are kept; five would do."""


def multiply_blocks(layout: ByteLayout, blocks: int) -> Any:
    """An operation: add the products of `blocks` unpacked blocks (signed weights) with X_ROWS rows of x to their sums.

    Arguments: address of the sums, weights (whose scales lie `layout.scales_at` bytes on), x, what belongs to these
    blocks of x, and scratch of DOTS_BYTES.
    """
    fmt, scaling, scales_at = layout.fmt, FloatScales(layout.fmt), layout.scales_at

    @define(types.none, *[types.int64] * 5)
    def multiply(b: ir.IRBuilder, sums: Value, weights: Value, x: Value, x_scales: Value, scratch: Value) -> None:
        scales = at(b, weights, scales_at)
        places = [at(b, scratch, DOT_BYTES * i) for i in range(_PLACES)]
        y = [at(b, sums, 64 * t) for t in range(X_ROWS)]
        of_rows = [XParts(b, at(b, x_scales, scaling.X_GROUP_BYTES * t)) for t in range(X_ROWS)]
        totals = [load(b, to_y, F32.vector) for to_y in y]
        for step in range(blocks + _DELAY):
            if step < blocks:
                dots = _TURNS[step % len(_TURNS)]
                load_rows(b, X, at(b, x, 32 * step), scaling.X_GROUP_BYTES)
                load_rows(b, W, at(b, weights, BLOCK_WEIGHTS * step))
                clear_dots(b, dots)
                add_dots(b, dots, x_signed=True, w_signed=bool(fmt.OFFSET))
            if 0 < step <= blocks:
                store_dots(b, _TURNS[(step - 1) % len(_TURNS)], places[(step - 1) % _PLACES])
            if step >= _DELAY:
                block = step - _DELAY
                of_block = layout.load_scales(b, scales, block, F32)
                for t, row in enumerate(of_rows):
                    of_row = [load(b, at(b, places[block % _PLACES], 64 * t), I32.vector)]
                    totals[t] = scaling.add(b, totals[t], of_row, of_block, row, block)
        for to_y, v in zip(y, totals, strict=True):
            store_vectors(b, to_y, [v])

    return multiply
