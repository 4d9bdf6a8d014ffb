"""Exponential functions over 16 lanes."""

import numba as nb

from kquants.compiler.decorators import Vector, inline
from kquants.simd import (
    abs_f32,
    add_f32,
    copysign_f32,
    div_f32,
    exp2_of_whole,
    fma_f32,
    larger_f32,
    lowest_bits_as_exponent,
    max_f32,
    min_f32,
    mul_f32,
    round_f32,
    splat_f32,
    sub_f32,
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
def _reduced(x: Vector) -> tuple[Vector, Vector]:
    """(n, r) with x = n ln 2 + r, n whole and |r| <= ln2 / 2, of x limited to the range of float32's powers of e."""
    x = min_f32(max_f32(x, splat_f32(_LOWEST)), splat_f32(_HIGHEST))
    n = round_f32(mul_f32(x, splat_f32(_LOG2_E)))
    return n, fma_f32(n, splat_f32(_LN2_LOW), fma_f32(n, splat_f32(_LN2_HIGH), x))


@inline
def _p(r: Vector) -> Vector:
    """(exp(r) - 1 - r) / r²."""
    p = fma_f32(splat_f32(_P0), r, splat_f32(_P1))
    p = fma_f32(p, r, splat_f32(_P2))
    p = fma_f32(p, r, splat_f32(_P3))
    p = fma_f32(p, r, splat_f32(_P4))
    return fma_f32(p, r, splat_f32(_P5))


@inline
def exp(x: Vector) -> Vector:
    """e**x in each lane, within 2 units in the last place; 0 below -87.69, at most 1.7e38; NaN stays NaN."""
    n, r = _reduced(x)
    p = fma_f32(mul_f32(_p(r), r), r, add_f32(r, splat_f32(nb.float32(1))))
    return unless_nan(mul_f32(p, exp2_of_whole(n)), x)


@inline
def times_sigmoid(x: Vector, z: Vector) -> Vector:
    """x / (1 + e**-z) in each lane. Where that should be below x / 1.7e38 it is x / 1.7e38."""
    return div_f32(x, add_f32(splat_f32(nb.float32(1)), exp(sub_f32(splat_f32(nb.float32(0)), z))))


@inline
def expm1(x: Vector) -> Vector:
    """e**x - 1 in each lane, within 2 units in the last place of it; at most 1.7e38; NaN stays NaN.

    With e**r - 1 = r + r² p(r), which is exact to its last bits, 2**n (e**r - 1) + (2**n - 1) cancels little.
    """
    n, r = _reduced(x)
    power = exp2_of_whole(n)
    y = fma_f32(power, fma_f32(mul_f32(_p(r), r), r, r), sub_f32(power, splat_f32(nb.float32(1))))
    return unless_nan(y, x)


@inline
def tanh(x: Vector) -> Vector:
    """The hyperbolic tangent in each lane, within 3 units in the last place, of small x too; NaN stays NaN.

    It is |m / (m + 2)| with m = exp(-2 |x|) - 1, and the sign of x.
    """
    m = expm1(mul_f32(splat_f32(nb.float32(-2)), abs_f32(x)))
    return unless_nan(copysign_f32(div_f32(m, add_f32(m, splat_f32(nb.float32(2)))), x), x)


# log1p(u) = 2 artanh(s) with s = u / (2 + u): for u up to 1 the terms behind s**13 / 13 are below 2e-8 of the sum.
_ARTANH = tuple(nb.float32(1 / n) for n in (13, 11, 9, 7, 5, 3))


@inline
def softplus(x: Vector) -> Vector:
    """ln(1 + e**x) in each lane, within 4 units in the last place; 0 below -87.69; NaN stays NaN.

    It is max(x, 0) + log1p(exp(-|x|)).
    """
    zero = splat_f32(nb.float32(0))
    u = exp(sub_f32(zero, abs_f32(x)))
    s = div_f32(u, add_f32(splat_f32(nb.float32(2)), u))
    w, p = mul_f32(s, s), splat_f32(_ARTANH[0])
    p = fma_f32(p, w, splat_f32(_ARTANH[1]))
    p = fma_f32(p, w, splat_f32(_ARTANH[2]))
    p = fma_f32(p, w, splat_f32(_ARTANH[3]))
    p = fma_f32(p, w, splat_f32(_ARTANH[4]))
    p = fma_f32(p, w, splat_f32(_ARTANH[5]))
    twice = add_f32(s, s)
    return unless_nan(add_f32(max_f32(x, zero), fma_f32(mul_f32(p, w), twice, twice)), x)


# A weight of 2**-64 adds nothing to one of 1, as 0 would; but products of lesser ones may be denormal, and each of
# those takes a CPU over a hundred cycles.
_LEAST = nb.float32(-64)
_WHOLE = nb.float32(1.5 * 2**23 + 127)
# 2**r = 1 + r q(r) for |r| <= 1/2: a least-squares fit of the relative error over 20,000 points, reweighted until
# its peaks were level at 9.1e-8 (Lawson's algorithm).
_Q0 = nb.float32(0.6931469775872214)
_Q1 = nb.float32(0.240222420858435)
_Q2 = nb.float32(0.05550733773787944)
_Q3 = nb.float32(0.009671512638439225)
_Q4 = nb.float32(0.0013264714349695002)


@inline
def exp2(x: Vector) -> Vector:
    """2**x in each lane for x <= 0, within 2e-7 of it: exactly 1 for 0, at least 2**-64; NaN stays NaN."""
    x = larger_f32(splat_f32(_LEAST), x)
    # So large that its lowest bits count wholes: adding it rounds x, and leaves them where an exponent can be made.
    shifted = add_f32(x, splat_f32(_WHOLE))
    r = sub_f32(x, sub_f32(shifted, splat_f32(_WHOLE)))
    p = fma_f32(splat_f32(_Q4), r, splat_f32(_Q3))
    p = fma_f32(p, r, splat_f32(_Q2))
    p = fma_f32(p, r, splat_f32(_Q1))
    p = fma_f32(p, r, splat_f32(_Q0))
    p = fma_f32(p, r, splat_f32(nb.float32(1)))
    return mul_f32(p, lowest_bits_as_exponent(shifted))
