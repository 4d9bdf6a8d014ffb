"""What a bundle of queries does with one page of keys or values of type q8_0 (see `kquants.attention.pages`).

The functions are those of `kquants.attention.readers`.
"""

from typing import Any

from kquants.activations.quantized import quantize_row
from kquants.attention.bundles import WEIGHTS_BYTES, define_gather, fetch
from kquants.attention.key_blocks import KEYS, add_key_block
from kquants.attention.lanes import Operations, operations
from kquants.compiler.decorators import inline
from kquants.kv_layout import PAGE
from kquants.layout import X_BLOCK_BYTES
from kquants.simd import prefetch, store_f32x16

_add_32, _add_16 = add_key_block(8), add_key_block(4)
_zero, _store, _load_narrow = operations(KEYS).zero, operations(KEYS).store, operations(1).load_q8


@inline
def take_q8(x: int, width: int, q: int) -> None:
    """A query as a quantized row, of width up to a multiple of 32."""
    n = (width + 31) & ~31
    quantize_row(x, n, q)


@inline
def scores_q8(q: int, stride: int, keys: int, head_dim: int, p: int, ahead: int) -> None:
    """Block by block of 32 values; the last may have 16."""
    width, n = (head_dim + 15) & ~15, (head_dim + 31) & ~31
    for j in range(0, PAGE, 16 * KEYS):
        sums = _zero()
        for d in range(0, width, 32):
            block, key_scales = keys + PAGE * d + 4 * j, keys + PAGE * width + 2 * (PAGE * (d >> 5) + j)
            q_scales = q + n + X_BLOCK_BYTES * (d >> 5)
            if width - d >= 32:
                for k in range(0, 32, 4):
                    fetch(ahead + PAGE * (d + k) + 4 * j, 64 * KEYS)
                sums = _add_32(sums, block, key_scales, q + d, q_scales, stride)
            else:
                sums = _add_16(sums, block, key_scales, q + d, q_scales, stride)
        _store(p + 4 * j, sums, WEIGHTS_BYTES)


@inline
def _scales_at(values: int, c: int, d: int, width: int) -> int:
    return values + PAGE * width + 2 * (c * ((width + 31) >> 5) + (d >> 5))


def _load(some: Operations) -> Any:
    load = some.load_q8

    @inline
    def load_cell(values: int, c: int, d: int, width: int) -> Any:
        return load(values + c * width + d, _scales_at(values, c, d, width))

    return load_cell


gather_q8 = define_gather(_load, 1, fetch)


@inline
def expand_q8(values: int, width: int, room: int, ahead: int) -> int:
    """The values of a page as float32."""
    for c in range(PAGE):
        for d in range(0, width, 64):
            prefetch(ahead + c * width + d)
        for d in range(0, width, 16):
            (v,) = _load_narrow(values + c * width + d, _scales_at(values, c, d, width))
            store_f32x16(room + 4 * (c * width + d), v)
    return room
