"""Q6_K; its layout is in `kquants.formats.q6_k`."""

from kquants.compiler.decorators import inline
from kquants.encoders import super_blocks
from kquants.encoders.k_scale_search import k_scale_search, whole_levels
from kquants.encoders.lane_ops import store_i8x32
from kquants.formats.q6_k import BLOCK_BYTES
from kquants.simd import and_i8, copy, load_i8x32, or_i8, shift_left_i8, shift_right_i8


@inline
def _pack(q: int, scales: int, minima: int, d: int, dmin: int, target: int) -> None:
    for half in range(2):
        top = shift_right_i8(load_i8x32(q + 128 * half), 4)
        for j in range(1, 4):
            top = or_i8(top, shift_left_i8(shift_right_i8(load_i8x32(q + 128 * half + 32 * j), 4), 2 * j))
        store_i8x32(target + 128 + 32 * half, top)
        for j in range(2):
            low, high = load_i8x32(q + 128 * half + 32 * j), load_i8x32(q + 128 * half + 32 * j + 64)
            store_i8x32(target + 64 * half + 32 * j, or_i8(and_i8(low, 15), shift_left_i8(high, 4)))
    copy(target + 192, scales, 16)
    copy(target + 208, d, 2)


_search = k_scale_search(16, whole_levels(32), offset=32, steps=128, spreads=(-30.0,), margin=8, reach=8, rounds=1)
super_blocks.define("q6_k", BLOCK_BYTES, 1e8, 16, _search, _pack)
