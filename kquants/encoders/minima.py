"""The best scale and minimum of blocks w = d · q + m, q in 0 … top, by weighted squared error; a block in each lane.

A scale and a minimum give each weight its nearest q, and those have an m and d of least squares. m is rounded to
float16 first; d is then the best one beside it, so that it makes up for most of what rounding m cost. With
u = x - c, c the middle of the block (which keeps the sums small), e = m - c, and sums weighted,

    d = (Σ u q - e Σ q) / Σ q²,    and the error Σ u² falls by  2 d Σ u q + 2 e Σ u - d² Σ q² - 2 d e Σ q - e² Σ 1.

Tried are scales that stretch the block over somewhat fewer or more steps than there are; then those of the best.
"""

import math
from typing import Any

import numba as nb

from kquants.decorators import Vector, inline
from kquants.encoders.scales import half_in_range, inverse_of
from kquants.encoders.vectors import where_greater
from kquants.simd import (
    add_f32,
    div_f32,
    fma_f32,
    load_f32x16,
    max_f32,
    min_f32,
    mul_f32,
    splat_f32,
    store_f32x16,
    sub_f32,
)

_REFINEMENTS = 2
_LEAST_GAIN = nb.float32(-math.inf)
_ZERO, _HALF, _ONE = nb.float32(0), nb.float32(0.5), nb.float32(1)


@inline
def _center(x: int, centered: int) -> tuple[Vector, Vector]:
    """Write x less its middle; returns (the middle, half of the range)."""
    low = high = load_f32x16(x)
    for k in range(1, 32):
        low, high = min_f32(low, load_f32x16(x + 64 * k)), max_f32(high, load_f32x16(x + 64 * k))
    middle = mul_f32(add_f32(low, high), splat_f32(_HALF))
    for k in range(32):
        store_f32x16(centered + 64 * k, sub_f32(load_f32x16(x + 64 * k), middle))
    return middle, sub_f32(high, middle)


@inline
def _totals(centered: int, weights: int) -> tuple[Vector, Vector]:
    """(Σ w, Σ w u)."""
    total, sum_u = splat_f32(_ZERO), splat_f32(_ZERO)
    for k in range(32):
        w = load_f32x16(weights + 64 * k)
        total, sum_u = add_f32(total, w), fma_f32(w, load_f32x16(centered + 64 * k), sum_u)
    return total, sum_u


@inline
def _least_squares(total: Vector, sum_u: Vector, q1: Vector, q2: Vector, uq: Vector) -> Vector:
    """e of the least error of d · q + e."""
    spread = fma_f32(total, q2, mul_f32(q1, sub_f32(splat_f32(_ZERO), q1)))
    d = div_f32(sub_f32(mul_f32(total, uq), mul_f32(sum_u, q1)), spread)
    d = where_greater(spread, splat_f32(_ZERO), d, splat_f32(_ZERO))
    return div_f32(sub_f32(sum_u, mul_f32(d, q1)), total)


@inline
def _gain(d: Vector, e: Vector, total: Vector, sum_u: Vector, q1: Vector, q2: Vector, uq: Vector) -> Vector:
    """By how much d · q + e lowers the error."""
    of_d = mul_f32(d, sub_f32(add_f32(uq, uq), fma_f32(d, q2, mul_f32(add_f32(e, e), q1))))
    return fma_f32(e, sub_f32(add_f32(sum_u, sum_u), mul_f32(e, total)), of_d)


def scale_and_minimum_search(nearest: Any, top: int, stretches: tuple[float, ...]) -> Any:
    """`search(x, weights, centered) -> (d, m)` for q in 0 … `top` that `nearest` chooses.

    `stretches` are what is tried of q between the smallest and the largest weight, in parts of `top`; `centered` is
    the address of room for 32 vectors.
    """
    halves, middle_q = tuple(nb.float32(top / 2 * stretch) for stretch in stretches), nb.float32(top / 2)

    @inline
    def sums(u: int, weights: int, inverse: Vector, shift: Vector) -> tuple[Vector, Vector, Vector]:
        """(Σ w q, Σ w q², Σ w u q) of the q nearest to u · inverse + shift."""
        q1 = q2 = uq = splat_f32(_ZERO)
        for k in range(32):
            value = load_f32x16(u + 64 * k)
            q = nearest(fma_f32(value, inverse, shift))
            wq = mul_f32(load_f32x16(weights + 64 * k), q)
            q1, q2, uq = add_f32(q1, wq), fma_f32(wq, q, q2), fma_f32(wq, value, uq)
        return q1, q2, uq

    @inline
    def fitted(
        u: int, weights: int, total: Vector, sum_u: Vector, middle: Vector, inverse: Vector, shift: Vector
    ) -> tuple[Vector, Vector, Vector]:
        """(d, m, gain) of the best scale and minimum for those q."""
        q1, q2, uq = sums(u, weights, inverse, shift)
        m = half_in_range(add_f32(_least_squares(total, sum_u, q1, q2, uq), middle))
        e = sub_f32(m, middle)
        d = div_f32(sub_f32(uq, mul_f32(e, q1)), where_greater(q2, splat_f32(_ZERO), q2, splat_f32(_ONE)))
        d = half_in_range(d)
        return d, m, _gain(d, e, total, sum_u, q1, q2, uq)

    @inline
    def search(x: int, weights: int, centered: int) -> tuple[Vector, Vector]:
        middle, half_range = _center(x, centered)
        total, sum_u = _totals(centered, weights)
        inverse, shift = inverse_of(half_range), splat_f32(middle_q)
        best_d = best_m = splat_f32(_ZERO)
        most = splat_f32(_LEAST_GAIN)
        for half in halves:
            d, m, gain = fitted(centered, weights, total, sum_u, middle, mul_f32(inverse, splat_f32(half)), shift)
            best_d, best_m = where_greater(gain, most, d, best_d), where_greater(gain, most, m, best_m)
            most = where_greater(gain, most, gain, most)
        for _ in range(_REFINEMENTS):
            inverse = inverse_of(best_d)
            shift = mul_f32(sub_f32(middle, best_m), inverse)
            d, m, gain = fitted(centered, weights, total, sum_u, middle, inverse, shift)
            best_d, best_m = where_greater(gain, most, d, best_d), where_greater(gain, most, m, best_m)
            most = where_greater(gain, most, gain, most)
        return best_d, best_m

    return search
