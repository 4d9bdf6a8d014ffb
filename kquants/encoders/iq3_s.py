"""IQ3_S; its layout is in `kquants.formats.iq3_s`."""

from kquants.compiler.decorators import inline
from kquants.encoders import super_blocks
from kquants.encoders.grid_packing import eight_signs, indices_of
from kquants.encoders.grid_scale_search import STARTS, grid_scale_search
from kquants.encoders.lane_ops import store_u8
from kquants.formats.grids.iq3_s import IQ3_S
from kquants.formats.iq3_s import BLOCK_BYTES
from kquants.simd import copy, load_i8

_index_of = indices_of(IQ3_S)


@inline
def _pack(q: int, scales: int, minima: int, d: int, dmin: int, target: int) -> None:
    copy(target, d, 2)
    for j in range(8):
        high = 0
        for p in range(8):
            index = _index_of(q + 32 * j + 4 * p)
            store_u8(target + 2 + 8 * j + p, index)
            high |= index >> 8 << p
        store_u8(target + 66 + j, high)
    for i in range(32):
        store_u8(target + 74 + i, eight_signs(q + 8 * i))
    for i in range(4):
        store_u8(target + 106 + i, load_i8(scales + 2 * i) >> 1 | load_i8(scales + 2 * i + 1) >> 1 << 4)


# Weights that are all the same stay so, with a start at the lowest level: (1, 1, 1, 1) is the only point of equal
# magnitudes.
_search = grid_scale_search(IQ3_S, 32, unit=1, has_parity=False, starts=(1 / 15, *STARTS))
super_blocks.define("iq3_s", BLOCK_BYTES, 2e6, 32, _search, _pack)
