"""NVFP4; its layout is in `kquants.formats.nvfp4`.

The search minimizes the weighted squared error of each 16 weights over scales, floats of 8 bits, around the one that
puts the largest weight on the highest level.
"""

from kquants.compiler.decorators import Vector, inline
from kquants.encoders import blocks
from kquants.encoders.e2m1 import HIGHEST, code, error_of, nearest
from kquants.encoders.lane_ops import all_lanes, choose, largest_of, smaller_f32, store_u8
from kquants.encoders.lane_ops import nearest as whole
from kquants.encoders.packing import packer
from kquants.encoders.scale_search import inverse_of
from kquants.encoders.vectors import float_of_ue4m3, stack_buffer, store_i32_apart, ue4m3_of_float, whole_i32
from kquants.formats.nvfp4 import BLOCK_BYTES
from kquants.simd import add_f32, copy, load_u8, mul_f32

_N = 16
_LIMIT = HIGHEST * 448
_LAST = 126
"""The code of the highest scale, 448."""

_LOWER, _HIGHER = 14, 16
"""How many codes below and above to try: eight codes are a factor of two. Low scales serve blocks whose largest weight
has little importance; high ones put the largest weight on a lower level, as the lowest scales are far apart."""

_INFINITE = float("inf")
_APART = 9
"""Bytes of a block of 16 as the search's result is packed, before those of four are put together: scale, nibbles."""

_largest, _error = largest_of(_N), error_of(_N)
_pack = packer(nearest, code, _APART, nibbles=1, n=_N)
_take_buffer = stack_buffer(16 * _APART)


@inline
def _search(x: int, weights: int) -> Vector:
    """The code of the best scale."""
    center = ue4m3_of_float(mul_f32(_largest(x), all_lanes(1 / HIGHEST)))
    least, best = all_lanes(_INFINITE), center
    for k in range(-_LOWER, _HIGHER + 1):
        tried = whole(add_f32(center, all_lanes(k)), 1, _LAST)
        d = float_of_ue4m3(tried)
        error = mul_f32(mul_f32(_error(x, weights, inverse_of(d)), d), d)
        best, least = choose(error, least, tried, best), smaller_f32(error, least)
    return best


@inline
def _encode16(x: int, weights: int, decoded: int, target: int) -> None:
    scale, apart = _search(x, weights), _take_buffer()
    d = float_of_ue4m3(scale)
    store_i32_apart(apart, whole_i32(scale), _APART)
    _pack(x, d, inverse_of(d), all_lanes(0), decoded, apart)
    for lane in range(16):
        block, place = target + BLOCK_BYTES * (lane // 4), lane % 4
        store_u8(block + place, load_u8(apart + _APART * lane))
        copy(block + 4 + 8 * place, apart + _APART * lane + 1, 8)


blocks.define("nvfp4", BLOCK_BYTES // 4, _LIMIT, _encode16, _N)
