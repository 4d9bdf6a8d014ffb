"""IQ2_XS; its layout is in `kquants.formats.iq2_xs`."""

from kquants.compiler.decorators import inline
from kquants.encoders import super_blocks
from kquants.encoders.grid_packing import eight_signs, indices_of
from kquants.encoders.grid_scale_search import grid_scale_search
from kquants.encoders.lane_ops import store_u8
from kquants.formats.grids.iq2_xs import IQ2_XS
from kquants.formats.iq2_xs import BLOCK_BYTES
from kquants.simd import copy, load_i8

_index_of = indices_of(IQ2_XS)


@inline
def _pack(q: int, scales: int, minima: int, d: int, dmin: int, target: int) -> None:
    copy(target, d, 2)
    for p in range(32):
        number = _index_of(q + 8 * p) | (eight_signs(q + 8 * p) & 127) << 9
        store_u8(target + 2 + 2 * p, number)
        store_u8(target + 3 + 2 * p, number >> 8)
    for j in range(8):
        store_u8(target + 66 + j, load_i8(scales + 2 * j) >> 1 | load_i8(scales + 2 * j + 1) >> 1 << 4)


_UNIT = 0.125
_search = grid_scale_search(IQ2_XS, 16, _UNIT, has_parity=True)
super_blocks.define("iq2_xs", BLOCK_BYTES, 5e6, 16, _search, _pack, _UNIT)
