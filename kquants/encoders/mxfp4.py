"""MXFP4; its layout is in `kquants.formats.mxfp4`.

The search minimizes the weighted squared error over the powers of two that put the largest weight of a block between
2 and 64, where the highest level is 6. The common rule, 4 to 8, is one of them.
"""

from kquants.compiler.decorators import Vector, inline
from kquants.encoders import blocks
from kquants.encoders.e2m1 import code, error_of, nearest
from kquants.encoders.lane_ops import all_lanes, choose, largest_of, smaller_f32
from kquants.encoders.packing import packer
from kquants.encoders.vectors import exponent_f32, store_i32_apart, whole_i32
from kquants.formats.mxfp4 import BLOCK_BYTES
from kquants.simd import add_f32, exp2_of_whole, larger_f32, mul_f32, sub_f32

_LIMIT = 2.0**127
_TOP = 2
"""The exponent of the highest level."""

_RAISED, _LOWERED = 1, 3
"""How far above and below the common rule to try. Low scales are for blocks whose largest weight
has little importance."""

_LEAST = -120.0  # 1 / 2^-120 is finite; weights below become 0
_BIAS = 127
_INFINITE = float("inf")

_largest, _error = largest_of(32), error_of(32)
_pack = packer(nearest, code, BLOCK_BYTES, nibbles=1)


@inline
def _search(x: int, weights: int) -> Vector:
    """The exponent of the best scale."""
    common = larger_f32(sub_f32(exponent_f32(_largest(x)), all_lanes(_TOP)), all_lanes(_LEAST + _LOWERED))
    least, best = all_lanes(_INFINITE), common
    for k in range(-_LOWERED, _RAISED + 1):
        # The unit of the errors is the square of the common scale: squares of the weights may be too large or small.
        exponent, unit = add_f32(common, all_lanes(k)), exp2_of_whole(all_lanes(k))
        error = _error(x, weights, exp2_of_whole(sub_f32(all_lanes(0), exponent)))
        error = mul_f32(error, mul_f32(unit, unit))
        best, least = choose(error, least, exponent, best), smaller_f32(error, least)
    return best


@inline
def _encode16(x: int, weights: int, decoded: int, target: int) -> None:
    exponent = _search(x, weights)
    store_i32_apart(target, whole_i32(add_f32(exponent, all_lanes(_BIAS))), BLOCK_BYTES)
    inverse = exp2_of_whole(sub_f32(all_lanes(0), exponent))
    _pack(x, exp2_of_whole(exponent), inverse, all_lanes(0), decoded, target)


blocks.define("mxfp4", BLOCK_BYTES, _LIMIT, _encode16)
