"""Formats with float scales in AMX tiles, see `kquants.matmul.amx`.

One instruction makes the dot products of a sub-block for 16 × 16 rows. Its latency, the way of the products through
memory and the arithmetic that follows overlap if they are about different sub-blocks: while sub-block k is multiplied,
the products of sub-block k - 1 are stored and those of the block that ends with k - 4 are scaled.
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
"""Sub-blocks after which products are scaled: those just stored cannot be loaded yet. (2: Q8_0 5 % slower; 5: no
gain.)"""

_PLACES = DOTS_BYTES // DOT_BYTES
"""Sub-blocks whose products are kept; six would do."""


def multiply_blocks(layout: ByteLayout, blocks: int) -> Any:
    """An operation: add the products of `blocks` unpacked blocks (signed weights) with X_ROWS rows of x to their sums.

    Arguments: address of the sums, weights (whose scales lie `layout.scales_at` bytes on), x, what belongs to these
    blocks of x, and scratch of DOTS_BYTES.
    """
    fmt, scaling, scales_at = layout.fmt, FloatScales(layout.fmt), layout.scales_at
    of_block, steps = fmt.SUB_BLOCKS, fmt.SUB_BLOCKS * blocks
    x_bytes, nbytes = 32 // fmt.SUB_BLOCKS, BLOCK_WEIGHTS // fmt.SUB_BLOCKS

    @define(types.none, *[types.int64] * 5)
    def multiply(b: ir.IRBuilder, sums: Value, weights: Value, x: Value, x_scales: Value, scratch: Value) -> None:
        scales = at(b, weights, scales_at)
        places = [at(b, scratch, DOT_BYTES * i) for i in range(_PLACES)]
        y = [at(b, sums, 64 * t) for t in range(X_ROWS)]
        of_rows = [XParts(b, at(b, x_scales, scaling.X_GROUP_BYTES * t)) for t in range(X_ROWS)]
        totals = [load(b, to_y, F32.vector) for to_y in y]
        for step in range(steps + _DELAY):
            if step < steps:
                dots = _TURNS[step % len(_TURNS)]
                load_rows(b, X, at(b, x, x_bytes * step), scaling.X_GROUP_BYTES)
                load_rows(b, W, at(b, weights, nbytes * step))
                clear_dots(b, dots)
                add_dots(b, dots, x_signed=True, w_signed=bool(fmt.OFFSET))
            if 0 < step <= steps:
                store_dots(b, _TURNS[(step - 1) % len(_TURNS)], places[(step - 1) % _PLACES])
            done = step - _DELAY + 1
            if done > 0 and done % of_block == 0:
                block = done // of_block - 1
                values = layout.load_scales(b, scales, block, F32)
                for t, row in enumerate(of_rows):
                    stored = (at(b, places[i % _PLACES], 64 * t) for i in range(done - of_block, done))
                    of_row = [load(b, address, I32.vector) for address in stored]
                    totals[t] = scaling.add(b, totals[t], of_row, values, row, block)
        for to_y, v in zip(y, totals, strict=True):
            store_vectors(b, to_y, [v])

    return multiply
