"""Q2_K; its layout is in `kquants.formats.q2_k`."""

from kquants.compiler.decorators import inline
from kquants.encoders import super_blocks
from kquants.encoders.k_scale_min_search import k_scale_min_search
from kquants.encoders.lane_ops import store_i8x32, store_u8
from kquants.formats.q2_k import BLOCK_BYTES
from kquants.simd import and_i8, copy, load_i8x32, load_u8, or_i8, shift_left_i8


@inline
def pack_2_bits(q: int, target: int) -> None:
    """The low two bits of 256 bytes, in 64."""
    for half in range(2):
        packed = and_i8(load_i8x32(q + 128 * half), 3)
        for j in range(1, 4):
            packed = or_i8(packed, shift_left_i8(and_i8(load_i8x32(q + 128 * half + 32 * j), 3), 2 * j))
        store_i8x32(target + 32 * half, packed)


@inline
def _pack(q: int, scales: int, minima: int, d: int, dmin: int, target: int) -> None:
    for s in range(16):
        store_u8(target + s, load_u8(scales + s) | load_u8(minima + s) << 4)
    pack_2_bits(q, target + 16)
    copy(target + 80, d, 2)
    copy(target + 82, dmin, 2)


_SPREADS = tuple(2.5 + k / 10 for k in range(10))
_search = k_scale_min_search(16, levels=3, steps=15, group=16, spreads=_SPREADS, reach=(2, 2), rounds=2)
super_blocks.define("q2_k", BLOCK_BYTES, 5e5, 16, _search, _pack)
