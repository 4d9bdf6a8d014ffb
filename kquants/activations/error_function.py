"""The error function over 16 lanes."""

import numba as nb

from kquants.activations.exponential import exp
from kquants.compiler.decorators import Vector, inline
from kquants.simd import (
    abs_f32,
    copysign_f32,
    fma_f32,
    min_f32,
    mul_f32,
    splat_f32,
    sub_f32,
    unless_nan,
    where_less_f32,
)

# Both polynomials are least-squares fits of the error of erf over 4,000 points against Python's math.erf and math.erfc,
# reweighted until their peaks were level (Lawson's algorithm).
# erf(x) = x + x p(x²) for |x| <= 1, within 1.3e-9 of it.
_P0 = nb.float32(0.12837916612625122)
_P1 = nb.float32(-0.3761262595653534)
_P2 = nb.float32(0.1128358542919159)
_P3 = nb.float32(-0.026853812858462334)
_P4 = nb.float32(0.005188328679651022)
_P5 = nb.float32(-0.0008010200690478086)
_P6 = nb.float32(7.853881834307685e-05)
# erf(x) = 1 - exp(q(x)) for 1 <= x <= 4, within 1.1e-9.
_Q0 = nb.float32(-0.0003537176817189902)
_Q1 = nb.float32(-1.1270400285720825)
_Q2 = nb.float32(-0.6382256746292114)
_Q3 = nb.float32(-0.10303737968206406)
_Q4 = nb.float32(0.02180532179772854)
_Q5 = nb.float32(-0.0029396084137260914)
_Q6 = nb.float32(0.00018557411385700107)

_LAST = nb.float32(4)  # 1 - erf(4) is 1.5e-8, of which float32 has nothing beside 1


@inline
def _erf_near_0(x: Vector) -> Vector:
    z = mul_f32(x, x)
    p = fma_f32(splat_f32(_P6), z, splat_f32(_P5))
    p = fma_f32(p, z, splat_f32(_P4))
    p = fma_f32(p, z, splat_f32(_P3))
    p = fma_f32(p, z, splat_f32(_P2))
    p = fma_f32(p, z, splat_f32(_P1))
    p = fma_f32(p, z, splat_f32(_P0))
    return fma_f32(p, x, x)


@inline
def _erf_from_1(x: Vector) -> Vector:
    x = min_f32(x, splat_f32(_LAST))
    q = fma_f32(splat_f32(_Q6), x, splat_f32(_Q5))
    q = fma_f32(q, x, splat_f32(_Q4))
    q = fma_f32(q, x, splat_f32(_Q3))
    q = fma_f32(q, x, splat_f32(_Q2))
    q = fma_f32(q, x, splat_f32(_Q1))
    q = fma_f32(q, x, splat_f32(_Q0))
    return sub_f32(splat_f32(nb.float32(1)), exp(q))


@inline
def erf(x: Vector) -> Vector:
    """The error function in each lane, within 2 units in the last place, of small x too; NaN stays NaN."""
    size = abs_f32(x)
    y = where_less_f32(size, splat_f32(nb.float32(1)), _erf_near_0(x), copysign_f32(_erf_from_1(size), x))
    return unless_nan(y, x)
