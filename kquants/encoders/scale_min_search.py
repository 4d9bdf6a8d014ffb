"""The best scale and minimum of blocks w = d · q + m, q in 0 … top, by weighted squared error; one block per lane.

A scale and a minimum give each weight its nearest q, and least squares give the best m and d for these q. m is rounded
to float16 first; d is then solved for the rounded m, which makes up for most of the rounding error. With u = x - c,
where c is the middle of the block (which keeps the sums small), e = m - c, and weighted sums,

    d = (Σ u q - e Σ q) / Σ q²,    and the error Σ u² falls by  2 d Σ u q + 2 e Σ u - d² Σ q² - 2 d e Σ q - e² Σ 1.

The search tries ranges whose ends lie beyond the smallest and the largest weight or short of them, independently at
each end; then it refines the best of them.
"""

import math
from typing import Any

import numba as nb

from kquants.compiler.decorators import Vector, inline
from kquants.encoders.lane_ops import choose, quotient, smaller_f32
from kquants.encoders.scale_search import half_in_range, inverse_of
from kquants.simd import (
    add_f32,
    div_f32,
    fma_f32,
    larger_f32,
    load_f32x16,
    mul_f32,
    splat_f32,
    store_f32x16,
    sub_f32,
)

_TRIMS = (-0.04, -0.02, 0.0, 0.02, 0.04, 0.06)
"""Parts of the range cut off at each end. For Gaussian weights, a finer grid lowers the error by 0.2 %; the same trim
at both ends raises it by 4 %."""

_REFINEMENTS = 2
_ROUNDING = nb.float32(1e-4)
_LEAST_GAIN = nb.float32(-math.inf)
_ZERO, _HALF = nb.float32(0), nb.float32(0.5)


@inline
def _center(x: int, centered: int) -> tuple[Vector, Vector]:
    """Write x minus its middle; returns (the middle, half of the range)."""
    low = high = load_f32x16(x)
    for k in range(1, 32):
        v = load_f32x16(x + 64 * k)
        low, high = smaller_f32(v, low), larger_f32(v, high)
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
    """The e for which d · q + e has the least error."""
    most = mul_f32(total, q2)
    spread = sub_f32(most, mul_f32(q1, q1))
    d = quotient(sub_f32(mul_f32(total, uq), mul_f32(sum_u, q1)), spread)
    # Where all q with a weight are equal, the spread is a rounding error.
    d = choose(mul_f32(most, splat_f32(_ROUNDING)), spread, d, splat_f32(_ZERO))
    return div_f32(sub_f32(sum_u, mul_f32(d, q1)), total)


@inline
def _gain(d: Vector, e: Vector, total: Vector, sum_u: Vector, q1: Vector, q2: Vector, uq: Vector) -> Vector:
    """How much d · q + e lowers the error."""
    of_d = mul_f32(d, sub_f32(add_f32(uq, uq), fma_f32(d, q2, mul_f32(add_f32(e, e), q1))))
    return fma_f32(e, sub_f32(add_f32(sum_u, sum_u), mul_f32(e, total)), of_d)


def _start(top: int, low: float, high: float) -> tuple[Any, Any]:
    """(steps of q per half of the range, q of its middle) with the parts `low` and `high` of the range cut off."""
    steps = top / (1 - low - high)
    return nb.float32(steps / 2), nb.float32(steps * (0.5 - low))


def scale_min_search(nearest: Any, top: int) -> Any:
    """`search(x, weights, centered) -> (d, m)` for q in 0 … `top` that `nearest` chooses.

    `centered` is the address of a buffer of 32 vectors.
    """
    starts = tuple(_start(top, low, high) for low in _TRIMS for high in _TRIMS)

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
        d = half_in_range(quotient(sub_f32(uq, mul_f32(e, q1)), q2))
        return d, m, _gain(d, e, total, sum_u, q1, q2, uq)

    @inline
    def search(x: int, weights: int, centered: int) -> tuple[Vector, Vector]:
        middle, half_range = _center(x, centered)
        total, sum_u = _totals(centered, weights)
        inverse = inverse_of(half_range)
        best_d = best_m = splat_f32(_ZERO)
        most = splat_f32(_LEAST_GAIN)
        for half, shift in starts:
            scaled = mul_f32(inverse, splat_f32(half))
            d, m, gain = fitted(centered, weights, total, sum_u, middle, scaled, splat_f32(shift))
            best_d, best_m = choose(most, gain, d, best_d), choose(most, gain, m, best_m)
            most = choose(most, gain, gain, most)
        for _ in range(_REFINEMENTS):
            inverse = inverse_of(best_d)
            shift = mul_f32(sub_f32(middle, best_m), inverse)
            d, m, gain = fitted(centered, weights, total, sum_u, middle, inverse, shift)
            best_d, best_m = choose(most, gain, d, best_d), choose(most, gain, m, best_m)
            most = choose(most, gain, gain, most)
        return best_d, best_m

    return search
