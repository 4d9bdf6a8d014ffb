"""The matmul kernels of quantized formats: tiles of 16 rows of W, a row, or a part of one, in each lane.

One expression (see `kquants.matmul.blocks`, `kquants.matmul.super_blocks` and `kquants.matmul.split_k`) for any
number of rows of x, so that a row of x always gets the same bits. A few rows (decode) are multiplied with weights
straight from W, for more of them (prefill) tiles are unpacked first. Scratch holds

    share      which part of W the chunk is of, and whose scratch it is: see `kquants.threadpool.interpreter`
    sums       [rows of x][16]   float32; prefill: [STRIP][rows of x][16], and what else the two need
    last rows                    those of W behind its last whole tile, as tiles are read whole
    x                            with the words of its parts interleaved, for decode with split-K

Op arguments: MatmulOp. One unit is one tile of 16 rows of W, or of a group's matrix (`kquants.matmul.products`). The
columns of x lie in groups, as `kquants.activations.quantized` and `kquants.activations.super_quantized` have it.
"""

from kquants.compiler.decorators import inline, kernel
from kquants.formats.quantized import QUANTIZED
from kquants.layout import DOTS_BYTES, FEW_ROWS, PREPARED, SHARE_BYTES, SLICE_ROWS, STRIP, TILE_ROWS
from kquants.matmul.decode import decode_of, interleave_x_of
from kquants.matmul.prefill import prefill_of
from kquants.matmul.products import Product, product_of, put_tile, slice_of, tile_count, tile_of
from kquants.matmul.read_on import read_on
from kquants.matmul.split_k import part_count
from kquants.matmul.strategy import Strategy, strategy_of
from kquants.matmul.sums import sum_bytes
from kquants.simd import copy, load_f32x16, load_i64, prefetch_to_write, store_i64
from kquants.threadpool.interpreter import row_count
from kquants.tuning import tuning


@inline
def prefetch_output(product: Product, first: int, last: int) -> None:
    """Prefetch the y of tiles `first` … `last` - 1, to write it.

    A store beside the weights that finds its line in no cache costs more than itself, as does any access to a page of
    which little else is read: one line for each tile costs that often, a page of lines at once costs it once. (Measured
    on Granite Rapids: it reads on at 14 GB/s, not at 19, over some 100 KB that lie 200 to 300 KB further on.)
    """
    for t in range(product.rows):
        y = product.y + t * product.y_bytes
        for tile in range(first, last):
            prefetch_to_write(y + 4 * TILE_ROWS * tile)


def define_matmul(name: str, strategy: Strategy) -> None:
    """Register the kernel `matmul_NAME` of a strategy."""
    few, decode, prefill = strategy.decode_rows, decode_of(strategy), prefill_of(strategy)
    parts_of, interleave_x = part_count(strategy.split_k, strategy.tuning.split_k_bytes), interleave_x_of(strategy)
    unpacked_bytes = strategy.layout(strategy.group, strategy.tuning).tile_bytes
    prefetched_tiles = strategy.tuning.output_prefetch_tiles

    @inline
    def multiply(op: int, product: Product, group: int, first: int, last: int, scratch: int) -> None:
        """Tiles `first` … `last` - 1 of W times all rows of a product."""
        rows, row_bytes = product.rows, product.row_bytes
        parts, (end, next_offset) = parts_of(product.columns, row_bytes), read_on(op, product, group, scratch)
        sums = scratch + SHARE_BYTES + 63 & ~63
        last_rows = sums + STRIP * (2 * sum_bytes(rows) + unpacked_bytes) + DOTS_BYTES
        x = last_rows + TILE_ROWS * row_bytes + 63 & ~63
        if rows > few:
            store_i64(scratch + PREPARED, 0)  # what lies there now overwrites x
        elif parts > 1 and load_i64(scratch + PREPARED) != product.first + 1:
            interleave_x(parts, product, x)
            store_i64(scratch + PREPARED, product.first + 1)
        tile = first
        while tile < last:
            left = product.w_rows - tile * TILE_ROWS
            place, w = tile_of(product, tile), tile_of(product, tile)
            # Few rows of x stay near anyway, and the memory gives most when W is read from front to back: two tiles at
            # once make eight rows 5 to 10 % slower on a Zen 5 (but sixteen 8 % faster, of Q4_K).
            tiles = min(STRIP if rows > FEW_ROWS else 1, last - tile, left // TILE_ROWS)
            if tiles == 0:
                # A tile is read whole: put the last rows where reading past them does no harm.
                copy(last_rows, w, left * row_bytes)
                w, tiles = last_rows, 1
            if rows <= few:
                if (tile - first) % prefetched_tiles == 0:
                    prefetch_output(product, tile, min(tile + prefetched_tiles, last))
                decode(parts, rows, product, w, sums, x, place, end, next_offset)
            else:
                prefill(product, w, tiles, product.y + 4 * TILE_ROWS * tile, sums)
            for t in range(rows):
                for k in range(tiles):
                    put_tile(product, t, tile + k, load_f32x16(sums + k * sum_bytes(rows) + 64 * t))
            tile += tiles

    @kernel(f"matmul_{name}")
    def matmul(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        rows, tiles, unit = row_count(op, batch), tile_count(op), first
        while unit < last:
            group, tile = unit // tiles, unit % tiles
            whole, end = product_of(op, rows, group), min(tiles, tile + last - unit)
            for t in range(0, whole.rows, SLICE_ROWS):
                multiply(op, slice_of(whole, t), group, tile, end, scratch)
            unit += end - tile


for _name in QUANTIZED:
    define_matmul(_name, strategy_of(_name, tuning()))
