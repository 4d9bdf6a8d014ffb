"""IQ3_XXS; its layout is in `kquants.formats.iq3_xxs`."""

from kquants.compiler.decorators import inline
from kquants.encoders import super_blocks
from kquants.encoders.grid_packing import eight_signs, indices_of
from kquants.encoders.grid_scale_search import grid_scale_search
from kquants.encoders.lane_ops import store_u8
from kquants.formats.grids.iq3_xxs import IQ3_XXS
from kquants.formats.iq3_xxs import BLOCK_BYTES
from kquants.simd import copy, load_i8, store_i32

_index_of = indices_of(IQ3_XXS)


@inline
def _pack(q: int, scales: int, minima: int, d: int, dmin: int, target: int) -> None:
    copy(target, d, 2)
    for p in range(64):
        store_u8(target + 2 + p, _index_of(q + 4 * p))
    for j in range(8):
        word = load_i8(scales + j) >> 1 << 28
        for k in range(4):
            word |= (eight_signs(q + 32 * j + 8 * k) & 127) << 7 * k
        store_i32(target + 66 + 4 * j, word)


_UNIT = 0.25
_search = grid_scale_search(IQ3_XXS, 32, _UNIT, has_parity=True)
super_blocks.define("iq3_xxs", BLOCK_BYTES, 1e7, 32, _search, _pack, _UNIT)
