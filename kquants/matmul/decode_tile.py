"""A super-block of a tile times a few rows of x, straight from W: exact integer dot products, then the scales."""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.formats.packed_bytes import Value
from kquants.formats.tiles import tile_at
from kquants.formats.unpacking import Format
from kquants.matmul.prefetch import Prefetcher, addresses_at, skip_to_next_share
from kquants.matmul.split_k import XParts
from kquants.matmul.strategy import Strategy
from kquants.simd import F32, as_tuple, define, of_tuple, store_vectors


def multiply_tile(strategy: Strategy, fmt: Format, rows: int, parts: int) -> Any:
    """An operation: add the products of a super-block with a few rows of x to the sums of the 16 rows of W.

    Or, with several `parts`, to those of 16 parts of rows; x then has the words of its parts interleaved. `fmt` is the
    strategy's format, or its group.

    Arguments: sums (a tuple), the address of the super-block, bytes between rows, the address of the next tile, to
    prefetch, the end of the share of W, bytes from there to what is read next, the 32 · blocks values of x, and what
    belongs to them.
    """
    sums_type, scaling, multiply_by = types.UniTuple(F32, rows), strategy.scaling, strategy.decode_way(rows, parts)
    tuning, distances = strategy.tuning, strategy.decode_prefetch(parts)

    @define(sums_type, sums_type, *[types.int64] * 7)
    def multiply(
        b: ir.IRBuilder,
        y: Value,
        w: Value,
        stride: Value,
        next_tile: Value,
        end: Value,
        next_offset: Value,
        x: Value,
        x_scales: Value,
    ) -> Value:
        all_x, all_scales = (
            [XParts(b, p, parts).at(scaling.X_GROUP_BYTES * t) for t in range(rows)] for p in (x, x_scales)
        )
        before = of_tuple(b, y)
        sums = [scaling.begin(b, v) for v in before]
        starts = skip_to_next_share(b, addresses_at(b, next_tile, distances), end, next_offset)
        tile = tile_at(b, w, stride, fmt.BLOCK_BYTES)
        rows_of_w = tile.rows if tuning.decode_prefetch_next_super_block else ()
        level = tuning.decode_prefetch_level
        prefetcher = Prefetcher(b, fmt.BLOCK_BYTES, starts, level, steps=8 * fmt.BLOCKS, rows=rows_of_w)
        scales, own = multiply_by(b, fmt, tile, sums, all_x, all_scales, prefetcher)
        prefetcher.finish()
        return as_tuple(b, list(scaling.end(b, sums, before, scales, lambda: own, all_scales)))

    return multiply


def sums_of(rows: int) -> tuple[Any, Any]:
    """Operations on the sums of `rows` rows of x: (zeros, store 64 bytes each at an address)."""
    sums_type = types.UniTuple(F32, rows)

    @define(sums_type)
    def zeros(b: ir.IRBuilder) -> Value:
        return ir.Constant(ir.ArrayType(F32.vector, rows), None)

    @define(types.none, types.int64, sums_type)
    def store_sums(b: ir.IRBuilder, address: Value, sums: Value) -> None:
        store_vectors(b, address, [b.extract_value(sums, t) for t in range(rows)])

    return zeros, store_sums
