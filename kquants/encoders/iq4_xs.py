"""IQ4_XS; its layout is in `kquants.formats.iq4_xs`, its values are those of IQ4_NL."""

from kquants.compiler.decorators import inline
from kquants.encoders import super_blocks
from kquants.encoders.iq4_nl import code, nearest
from kquants.encoders.k_scale_search import k_scale_search
from kquants.encoders.lane_ops import store_u8
from kquants.formats.iq4_nl import VALUES
from kquants.formats.iq4_xs import BLOCK_BYTES
from kquants.simd import copy, load_i8, load_u8


@inline
def _pack(codes: int, scales: int, minima: int, d: int, dmin: int, target: int) -> None:
    copy(target, d, 2)
    top_bits = 0
    for j in range(8):
        top_bits |= (load_i8(scales + j) + 32) >> 4 << 2 * j
    store_u8(target + 2, top_bits)
    store_u8(target + 3, top_bits >> 8)
    for j in range(4):
        first, second = load_i8(scales + 2 * j) + 32, load_i8(scales + 2 * j + 1) + 32
        store_u8(target + 4 + j, first & 15 | (second & 15) << 4)
    for j in range(8):
        for k in range(16):
            at = codes + 32 * j + k
            store_u8(target + 8 + 16 * j + k, load_u8(at) | load_u8(at + 16) << 4)


_SPREADS = tuple(end * (0.85 + k / 20) for k in range(8) for end in (VALUES[0], VALUES[-1]))
_search = k_scale_search(32, nearest, offset=0, steps=32, spreads=_SPREADS, margin=0, reach=2, rounds=2)
super_blocks.define("iq4_xs", BLOCK_BYTES, 1e8, 32, _search, _pack, code=code)
