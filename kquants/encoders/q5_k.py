"""Q5_K; its layout is in `kquants.formats.q5_k`."""

from kquants.compiler.decorators import inline
from kquants.encoders import super_blocks
from kquants.encoders.k_scale_min_search import k_scale_min_search
from kquants.encoders.lane_ops import store_i8x32
from kquants.encoders.q4_k import pack_scales
from kquants.formats.q5_k import BLOCK_BYTES
from kquants.simd import and_i8, copy, load_i8x32, or_i8, shift_left_i8, shift_right_i8


@inline
def _pack(q: int, scales: int, minima: int, d: int, dmin: int, target: int) -> None:
    copy(target, d, 2)
    copy(target + 2, dmin, 2)
    pack_scales(scales, minima, target + 4)
    top = shift_right_i8(load_i8x32(q), 4)
    for j in range(1, 8):
        top = or_i8(top, shift_left_i8(shift_right_i8(load_i8x32(q + 32 * j), 4), j))
    store_i8x32(target + 16, top)
    for group in range(4):
        low, high = load_i8x32(q + 64 * group), load_i8x32(q + 64 * group + 32)
        store_i8x32(target + 48 + 32 * group, or_i8(and_i8(low, 15), shift_left_i8(high, 4)))


_SPREADS = tuple(29 + k / 4 for k in range(16))
_search = k_scale_min_search(32, levels=31, steps=63, group=8, spreads=_SPREADS, reach=(2, 1), rounds=2)
super_blocks.define("q5_k", BLOCK_BYTES, 1e6, 32, _search, _pack)
