"""What a micro-tile of queries does with one page of keys or values of KV type q8_0 (see `kquants.attention.pages`).

What the functions do is described in `kquants.attention.page_readers`.
"""

from typing import Any

from kquants.activations.quantized import quantize_row
from kquants.attention.float_pages import WEIGHTS_BYTES, define_add_values, prefetch_bytes
from kquants.attention.micro_tile import MicroTileOps, micro_tile_ops
from kquants.attention.q8_scores import KEYS, add_key_block
from kquants.compiler.decorators import inline
from kquants.kv_layout import PAGE
from kquants.layout import X_BLOCK_BYTES
from kquants.simd import prefetch, store_f32x16

_add_32, _add_16 = add_key_block(8), add_key_block(4)
_zero, _store, _load_narrow = micro_tile_ops(KEYS).zero, micro_tile_ops(KEYS).store, micro_tile_ops(1).load_q8


@inline
def quantize_query(x: int, width: int, q: int) -> None:
    """Write a query as a quantized row, of width rounded up to a multiple of 32."""
    n = (width + 31) & ~31
    quantize_row(x, n, q)


@inline
def q8_scores(q: int, stride: int, keys: int, key_dim: int, p: int, next_page: int) -> None:
    """Scores, summed by blocks of 32 values; the last block may have 16."""
    width, n = (key_dim + 15) & ~15, (key_dim + 31) & ~31
    for j in range(0, PAGE, 16 * KEYS):
        sums = _zero()
        for d in range(0, width, 32):
            block, key_scales = keys + PAGE * d + 4 * j, keys + PAGE * width + 2 * (PAGE * (d >> 5) + j)
            q_scales = q + n + X_BLOCK_BYTES * (d >> 5)
            if width - d >= 32:
                for k in range(0, 32, 4):
                    prefetch_bytes(next_page + PAGE * (d + k) + 4 * j, 64 * KEYS)
                sums = _add_32(sums, block, key_scales, q + d, q_scales, stride)
            else:
                sums = _add_16(sums, block, key_scales, q + d, q_scales, stride)
        _store(p + 4 * j, sums, WEIGHTS_BYTES)


@inline
def _scales_at(values: int, c: int, d: int, width: int) -> int:
    return values + PAGE * width + 2 * (c * ((width + 31) >> 5) + (d >> 5))


def _load(ops: MicroTileOps) -> Any:
    load = ops.load_q8

    @inline
    def load_cell(values: int, c: int, d: int, width: int) -> Any:
        return load(values + c * width + d, _scales_at(values, c, d, width))

    return load_cell


add_q8_values = define_add_values(_load, 1, prefetch_bytes)


@inline
def q8_to_float(page: int, width: int, buffer: int, next_page: int) -> int:
    """Write the values of a page to the buffer as float32."""
    for c in range(PAGE):
        for d in range(0, width, 64):
            prefetch(next_page + c * width + d)
        for d in range(0, width, 16):
            (v,) = _load_narrow(page + c * width + d, _scales_at(page, c, d, width))
            store_f32x16(buffer + 4 * (c * width + d), v)
    return buffer
