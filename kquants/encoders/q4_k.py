"""Q4_K; its layout is in `kquants.formats.q4_k`."""

from kquants.compiler.decorators import inline
from kquants.encoders import super_blocks
from kquants.encoders.k_scale_min_search import k_scale_min_search
from kquants.encoders.lane_ops import store_i8x32, store_u8
from kquants.formats.q4_k import BLOCK_BYTES
from kquants.simd import copy, load_i8x32, load_u8, or_i8, shift_left_i8


@inline
def pack_scales(scales: int, minima: int, target: int) -> None:
    """Eight 6-bit scales and minima in 12 bytes."""
    for j in range(4):
        scale, minimum = load_u8(scales + 4 + j), load_u8(minima + 4 + j)
        store_u8(target + j, load_u8(scales + j) | scale >> 4 << 6)
        store_u8(target + 4 + j, load_u8(minima + j) | minimum >> 4 << 6)
        store_u8(target + 8 + j, scale & 15 | (minimum & 15) << 4)


@inline
def _pack(q: int, scales: int, minima: int, d: int, dmin: int, target: int) -> None:
    copy(target, d, 2)
    copy(target + 2, dmin, 2)
    pack_scales(scales, minima, target + 4)
    for group in range(4):
        low, high = load_i8x32(q + 64 * group), load_i8x32(q + 64 * group + 32)
        store_i8x32(target + 16 + 32 * group, or_i8(low, shift_left_i8(high, 4)))


_SPREADS = tuple(13.5 + k / 5 for k in range(16))
_search = k_scale_min_search(32, levels=15, steps=63, group=8, spreads=_SPREADS, reach=(2, 1), rounds=2)
super_blocks.define("q4_k", BLOCK_BYTES, 1e6, 32, _search, _pack)
