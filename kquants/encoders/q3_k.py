"""Q3_K; its layout is in `kquants.formats.q3_k`."""

from kquants.compiler.decorators import inline
from kquants.encoders import super_blocks
from kquants.encoders.k_scale_search import k_scale_search, whole_levels
from kquants.encoders.lane_ops import store_i8x32, store_u8
from kquants.encoders.q2_k import pack_2_bits
from kquants.formats.q3_k import BLOCK_BYTES
from kquants.simd import copy, load_i8, load_i8x32, or_i8, shift_left_i8, shift_right_i8


@inline
def _pack(q: int, scales: int, minima: int, d: int, dmin: int, target: int) -> None:
    top = shift_right_i8(load_i8x32(q), 2)
    for j in range(1, 8):
        top = or_i8(top, shift_left_i8(shift_right_i8(load_i8x32(q + 32 * j), 2), j))
    store_i8x32(target, top)
    pack_2_bits(q, target + 32)
    for s in range(8):
        first, second = load_i8(scales + s) + 32, load_i8(scales + 8 + s) + 32
        store_u8(target + 96 + s, first & 15 | (second & 15) << 4)
    for s in range(4):
        top_bits = 0
        for k in range(4):
            top_bits |= (load_i8(scales + 4 * k + s) + 32) >> 4 << 2 * k
        store_u8(target + 104 + s, top_bits)
    copy(target + 108, d, 2)


_SPREADS = tuple(sign * (3 + k / 5) for k in range(8) for sign in (-1, 1))
_search = k_scale_search(16, whole_levels(4), offset=4, steps=32, spreads=_SPREADS, margin=0, reach=2, rounds=2)
super_blocks.define("q3_k", BLOCK_BYTES, 4e6, 16, _search, _pack)
