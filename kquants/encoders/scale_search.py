"""The best scale of blocks w = d · v, where v is one of a few levels, by weighted squared error; one block per lane.

A scale gives each weight its nearest level, and least squares give the best scale for these levels,

    d = Σ w x v / Σ w v²,    which lowers the error Σ w x² by  d · (2 Σ w x v - d Σ w v²).

The search tries scales that put the largest weight on or near the outermost level of either sign; then it refines the
best of them. The error is that of d rounded to float16.
"""

from typing import Any

import numba as nb

from kquants.compiler.decorators import Vector, inline
from kquants.encoders.lane_ops import choose, quotient
from kquants.encoders.vectors import round_to_half
from kquants.simd import (
    abs_f32,
    add_f32,
    fma_f32,
    load_f32x16,
    max_f32,
    min_f32,
    mul_f32,
    splat_f32,
    sub_f32,
)

LARGEST_HALF = 65504.0
_REFINEMENTS = 2


@inline
def half_in_range(x: Vector) -> Vector:
    """The nearest finite float16."""
    limit = nb.float32(LARGEST_HALF)
    return round_to_half(min_f32(max_f32(x, splat_f32(-limit)), splat_f32(limit)))


@inline
def inverse_of(d: Vector) -> Vector:
    """1 / d, but 0 where |d| is at most 1e-30."""
    return quotient(splat_f32(nb.float32(1)), d)


@inline
def _peak(x: int) -> Vector:
    """The value of the largest magnitude in each lane."""
    peak = splat_f32(nb.float32(0))
    for k in range(32):
        v = load_f32x16(x + 64 * k)
        peak = choose(abs_f32(peak), abs_f32(v), v, peak)
    return peak


def scale_search(nearest: Any, starts: tuple[float, ...]) -> Any:
    """`search(x, weights) -> d` for levels that `nearest(t)` chooses; `starts` are levels for the largest weight."""
    starts = tuple(nb.float32(start) for start in starts)
    zero = nb.float32(0)

    @inline
    def fitted(x: int, weights: int, inverse: Vector) -> tuple[Vector, Vector]:
        """(the least-squares scale for the levels that 1 / `inverse` gives, how much it lowers the error)."""
        xv, vv = splat_f32(zero), splat_f32(zero)
        for k in range(32):
            value = load_f32x16(x + 64 * k)
            v = nearest(mul_f32(value, inverse))
            wv = mul_f32(load_f32x16(weights + 64 * k), v)
            xv, vv = fma_f32(wv, value, xv), fma_f32(wv, v, vv)
        d = half_in_range(quotient(xv, vv))
        return d, mul_f32(d, sub_f32(add_f32(xv, xv), mul_f32(d, vv)))

    @inline
    def search(x: int, weights: int) -> Vector:
        best, most = splat_f32(zero), splat_f32(zero)
        inverse = inverse_of(_peak(x))
        for start in starts:
            d, gain = fitted(x, weights, mul_f32(inverse, splat_f32(start)))
            best, most = choose(most, gain, d, best), choose(most, gain, gain, most)
        for _ in range(_REFINEMENTS):
            d, gain = fitted(x, weights, inverse_of(best))
            best, most = choose(most, gain, d, best), choose(most, gain, gain, most)
        return best

    return search
