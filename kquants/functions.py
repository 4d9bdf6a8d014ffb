"""The exponential function over 16 lanes."""

import numba as nb

from kquants.decorators import Vector, inline
from kquants.simd import (
    add_f32,
    exp2_of_whole,
    fma_f32,
    max_f32,
    min_f32,
    mul_f32,
    round_f32,
    splat_f32,
    unless_nan,
)

_LOWEST = nb.float32(-88.02969)  # -127 ln 2: from here on 2**n is written as a plain zero
_HIGHEST = nb.float32(88.0)  # 2**127 is the last power; beyond it exp stays at 1.65e38
_LOG2_E = nb.float32(1.4426950408889634)
# ln 2 in two parts: the first has few enough bits that n times it is exact (Cody and Waite).
_LN2_HIGH = nb.float32(-0.693359375)
_LN2_LOW = nb.float32(2.12194440e-4)
# exp(r) = 1 + r + r² p(r) for |r| <= ln2 / 2, p the minimax polynomial of Cephes' expf (S. Moshier).
_P0 = nb.float32(1.9875691500e-4)
_P1 = nb.float32(1.3981999507e-3)
_P2 = nb.float32(8.3334519073e-3)
_P3 = nb.float32(4.1665795894e-2)
_P4 = nb.float32(1.6666665459e-1)
_P5 = nb.float32(5.0000001201e-1)


@inline
def exp(x: Vector) -> Vector:
    """e**x in each lane, within 2 units in the last place; 0 below -87.69, at most 1.7e38; NaN stays NaN."""
    given = x
    x = min_f32(max_f32(x, splat_f32(_LOWEST)), splat_f32(_HIGHEST))
    n = round_f32(mul_f32(x, splat_f32(_LOG2_E)))
    r = fma_f32(n, splat_f32(_LN2_LOW), fma_f32(n, splat_f32(_LN2_HIGH), x))
    p = fma_f32(splat_f32(_P0), r, splat_f32(_P1))
    p = fma_f32(p, r, splat_f32(_P2))
    p = fma_f32(p, r, splat_f32(_P3))
    p = fma_f32(p, r, splat_f32(_P4))
    p = fma_f32(p, r, splat_f32(_P5))
    p = fma_f32(mul_f32(p, r), r, add_f32(r, splat_f32(nb.float32(1))))
    return unless_nan(mul_f32(p, exp2_of_whole(n)), given)
