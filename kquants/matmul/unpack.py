"""Unpacking a super-block of a tile into its layout, with prefetches of the next tiles beside it."""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.formats.packed_bytes import Value
from kquants.formats.tiles import tile_at
from kquants.formats.unpacking import HalfBlock
from kquants.matmul.layouts import ByteLayout
from kquants.matmul.prefetch import Prefetcher, addresses_at
from kquants.simd import define


def store_tile(layout: ByteLayout) -> Any:
    """An operation: unpack a super-block.

    Arguments: its address, bytes between rows, the address of the next tiles, to prefetch, where its weights go, and
    its scales.
    """
    fmt, tuning = layout.fmt, layout.tuning

    @define(types.none, *[types.int64] * 5)
    def store(b: ir.IRBuilder, w: Value, stride: Value, next_tiles: Value, weights: Value, scales: Value) -> None:
        starts = addresses_at(b, next_tiles, tuning.prefill_prefetch)
        prefetcher = Prefetcher(b, fmt.BLOCK_BYTES, starts, tuning.prefetch_level, steps=2 * fmt.BLOCKS)
        unpacker = layout.unpacker(b, layout, weights, scales)
        for found in fmt.unpack(tile_at(b, w, stride, fmt.BLOCK_BYTES)):
            if isinstance(found, HalfBlock):
                unpacker.store_weights(found)
                prefetcher.step()
            else:
                unpacker.store_scales(found)
        prefetcher.finish()

    return store
