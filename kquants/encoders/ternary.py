"""The scale of super-blocks of ternary weights: w = d · q with q in -1 … 1.

The search minimizes the weighted squared error Σ w (x - d q)². A threshold gives q: the sign of a weight beyond it,
else 0. The best d is then the mean Σ w |x| / Σ w of the magnitudes beyond it, which lowers the error by
d · (2 Σ w |x| - d Σ w). The search tries thresholds from half the largest magnitude down; then it refines the best d:
for a given d, the best threshold is d / 2.
"""

from kquants.compiler.decorators import Vector, inline
from kquants.encoders.lane_ops import across, all_lanes, choose, largest_of, quotient, stored_scale
from kquants.encoders.scale_search import LARGEST_HALF
from kquants.simd import (
    abs_f32,
    add_f32,
    copysign_f32,
    fma_f32,
    larger_f32,
    load_f32x16,
    mul_f32,
    store_f32x16,
    sub_f32,
)

_THRESHOLDS = tuple(0.5 * 0.85**k for k in range(20))
"""As parts of the largest magnitude; the last is 2 % of it."""

_REFINEMENTS = 3
_COUNT = len(_THRESHOLDS)
(_add_across, _largest_across), _largest_of_block = across(16), largest_of(16)

LARGEST = LARGEST_HALF
"""The largest magnitude that can be encoded."""


@inline
def _fitted(x: int, w: int, threshold: Vector) -> tuple[Vector, Vector]:
    """(the best d for a threshold, how much it lowers the error)."""
    beyond = weights = all_lanes(0)
    for i in range(0, 1024, 64):
        size = abs_f32(load_f32x16(x + i))
        weight = choose(threshold, size, load_f32x16(w + i), all_lanes(0))
        beyond, weights = fma_f32(weight, size, beyond), add_f32(weights, weight)
    beyond, weights = _add_across(beyond), _add_across(weights)
    d = stored_scale(quotient(beyond, weights))
    return d, mul_f32(d, sub_f32(add_f32(beyond, beyond), mul_f32(d, weights)))


@inline
def ternary_search(x: int, w: int, q: int) -> tuple[Vector, Vector, Vector, Vector]:
    """(1, 1, d, d), and writes q + 1: x ≈ d scale q - dmin minimum. See `kquants.encoders.super_blocks`."""
    best = most = all_lanes(0)
    largest = _largest_across(_largest_of_block(x))
    for k in range(_COUNT):
        d, gain = _fitted(x, w, mul_f32(largest, all_lanes(_THRESHOLDS[k])))
        best, most = choose(most, gain, d, best), larger_f32(gain, most)
    for _ in range(_REFINEMENTS):
        d, gain = _fitted(x, w, mul_f32(best, all_lanes(0.5)))
        best, most = choose(most, gain, d, best), larger_f32(gain, most)
    threshold, one = mul_f32(best, all_lanes(0.5)), all_lanes(1)
    for i in range(0, 1024, 64):
        v = load_f32x16(x + i)
        beyond = choose(threshold, abs_f32(v), copysign_f32(one, v), all_lanes(0))
        store_f32x16(q + i, add_f32(choose(all_lanes(0), best, beyond, all_lanes(0)), one))
    return one, one, best, best
