"""Matrix products of quantized formats: tiles of 16 rows of W, a row, or a part of one, in each lane.

One expression (see `kquants.matmul.blocks`, `kquants.matmul.super_blocks` and `kquants.matmul.parts`) for any
number of rows of x, so that a row of x always gets the same bits. A few rows (decode) are multiplied with weights
straight from W, for more of them (prefill) tiles are unpacked first: see `kquants.matmul.tiled_decode` and
`kquants.matmul.tiled_prefill`. Scratch holds

    share      which part of W the chunk is of, and whose scratch it is: see `kquants.threadpool.interpreter`
    sums       [rows of x][16]   float32; prefill: [STRIP][rows of x][16], and what else the two need
    last rows                    those of W behind its last whole tile, as tiles are read whole
    spread x                     for decode of rows in parts

Op arguments: MatmulOp. One unit is one tile of 16 rows of W; x lies in groups, as `kquants.activations.quantized` and
`kquants.activations.super_quantized` have it.
"""

from typing import Any

from kquants.compiler.decorators import inline, kernel
from kquants.formats.quantized import QUANTIZED
from kquants.layout import DOTS_BYTES, FEW_ROWS, PREPARED, SHARE_BYTES, STRIP, TILE_ROWS
from kquants.matmul.groups import product_of, tile_address
from kquants.matmul.parts import parts_of
from kquants.matmul.sums import put, sum_bytes
from kquants.matmul.tiled_decode import decode_of, reads_on, rows_of, spread_of
from kquants.matmul.tiled_prefill import UNPACKED, prefill_of
from kquants.simd import copy, load_f32x16, load_i64, prefetch_to_write, store_i64
from kquants.threadpool.interpreter import row_count

CLAIMED = 64
"""Tiles whose y decode asks for together: their y is as long as a page of memory."""


@inline
def claim_y(op: int, rows: int, first: int, last: int) -> None:
    """Ask for the y of tiles `first` … `last` - 1, to write it.

    A store beside the weights that finds its line in no cache costs more than itself: a Granite Rapids reads on at 14
    GB/s, not at 19 or more, over some 100 KB that lie 200 to 300 KB further on. (So does any other access to a page of
    which little else is read; not one to lines that follow each other.) Of one line for each tile many do, of a page of
    lines at once one. Decode gained 2 to 3 % (Q4_K_M) and 2 to 4 % (Q8_0) there; asked for to be read, 1 % and nothing.
    Other CPUs were not measured.
    """
    for t in range(rows):
        y = product_of(op).y + t * product_of(op).y_bytes
        for tile in range(first, last):
            prefetch_to_write(y + 4 * TILE_ROWS * tile)


def _define(name: str, fmt: Any) -> None:
    """Register the product of a format."""
    in_parts, spread, few = parts_of(fmt), spread_of(fmt), rows_of(fmt)
    decode, prefill = decode_of(fmt), prefill_of(fmt)

    @kernel(f"matmul_{name}")
    def matmul(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        rows, given = row_count(op, batch), product_of(op)
        row_bytes = given.row_bytes
        parts, (end, onward) = in_parts(given.columns, row_bytes), reads_on(op, scratch)
        sums = scratch + SHARE_BYTES + 63 & ~63
        last_rows = sums + STRIP * (2 * sum_bytes(rows) + UNPACKED) + DOTS_BYTES
        x = last_rows + TILE_ROWS * row_bytes + 63 & ~63
        if rows <= few and parts > 1 and load_i64(scratch + PREPARED) == 0:
            spread(parts, op, rows, x)
            store_i64(scratch + PREPARED, 1)
        unit = first
        while unit < last:
            start = unit * TILE_ROWS
            left = given.rows - start
            w, y = tile_address(op, unit), given.y + 4 * start
            # Few rows of x stay near anyway, and the memory gives most when W is read from front to back: two tiles at
            # once make eight rows 5 to 10 % slower on a Zen 5 (but sixteen 8 % faster, of Q4_K).
            tiles = min(STRIP if rows > FEW_ROWS else 1, last - unit, left // TILE_ROWS)
            if tiles == 0:
                # A tile is read whole: put the last rows where reading past them does no harm.
                copy(last_rows, w, left * row_bytes)
                w, tiles = last_rows, 1
            if rows <= few:
                if (unit - first) % CLAIMED == 0:
                    claim_y(op, rows, unit, min(unit + CLAIMED, last))
                decode(parts, rows, op, w, row_bytes, sums, x, tile_address(op, unit), end, onward)
            else:
                prefill(op, rows, w, row_bytes, tiles, y, sums)
            for t in range(rows):
                for k in range(tiles):
                    v, at = load_f32x16(sums + k * sum_bytes(rows) + 64 * t), y + t * given.y_bytes + 64 * k
                    put(at, v, min(left - k * TILE_ROWS, TILE_ROWS), given.accumulate)
            unit += tiles


for _name, _format in QUANTIZED.items():
    _define(_name, _format)
