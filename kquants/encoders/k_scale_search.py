"""Scales of super-blocks without minima: blocks of weights x ≈ a · q, where q is one of a few levels.

The search minimizes the weighted squared error Σ w (x - a q)² of the stored values. All blocks of a super-block share
d; a = d · scale, with integers -steps … steps - 1. Three steps:

1. For each block: map the value of the largest magnitude to several numbers near the outermost levels, of either sign
   as the levels are not the same below 0; take the nearest levels, and solve for the best a of these q (least squares).
2. Take d from the a of the largest magnitude; for each block, choose the best of the scales around its a.
3. For these q and scales, solve for the best d (least squares), and repeat step 2 around it; a super-block whose error
   does not fall stays as it was.

A block is a lane (see `kquants.encoders.lane_ops`); x, w and q are the addresses of its values, weights and levels q: a
vector for each of the n values.
"""

from typing import Any

from kquants.compiler.decorators import Vector, inline
from kquants.encoders.lane_ops import (
    across,
    all_lanes,
    choose,
    nearest,
    negative,
    quotient,
    scale_for,
    smaller_f32,
    stored_scale,
)
from kquants.simd import add_f32, fma_f32, larger_f32, load_f32x16, mul_f32, round_f32, store_f32x16

_INFINITE = float("inf")


def whole_levels(levels: int) -> Any:
    """`level(t)`, the nearest integer in -levels … levels - 1."""

    @inline
    def level(t: Vector) -> Vector:
        return nearest(t, -levels, levels - 1)

    return level


def k_scale_search(
    n: int, level: Any, offset: int, steps: int, spreads: tuple[float, ...], margin: int, reach: int, rounds: int
) -> Any:
    """`search(x, w, q) -> (scale, scale, d, offset · d)`, which writes q + offset: x ≈ d scale q - dmin minimum.

    Blocks have n values, super-blocks 256. `level(t)` is the level nearest to t. Step 1 tries the `spreads`; step 2
    begins with the largest scale `margin` steps below the highest and tries scales up to `reach` away; step 3 is
    repeated `rounds` times.
    """
    add_across, largest_across = across(256 // n)
    last, count = 64 * n, len(spreads)

    @inline
    def extreme(x: int) -> Vector:
        """The value of the largest magnitude."""
        low = high = all_lanes(0)
        for i in range(0, last, 64):
            v = load_f32x16(x + i)
            low, high = smaller_f32(v, low), larger_f32(v, high)
        return choose(negative(low), high, high, low)

    @inline
    def sums(x: int, w: int, inverse: Vector) -> tuple[Vector, Vector]:
        """Σ w q², Σ w q x of the levels q nearest to x · inverse."""
        s_qq = s_qx = all_lanes(0)
        for i in range(0, last, 64):
            v = load_f32x16(x + i)
            q = level(mul_f32(v, inverse))
            wq = mul_f32(load_f32x16(w + i), q)
            s_qq, s_qx = fma_f32(wq, q, s_qq), fma_f32(wq, v, s_qx)
        return s_qq, s_qx

    @inline
    def fit_blocks(x: int, w: int) -> Vector:
        """Step 1: a."""
        best = a = all_lanes(0)
        unit = quotient(all_lanes(1), extreme(x))
        for k in range(count):
            s_qq, s_qx = sums(x, w, mul_f32(unit, all_lanes(spreads[k])))
            # With the best a, Σ w (x - a q)² = Σ w x² - a Σ w q x.
            slope = quotient(s_qx, s_qq)
            gain = mul_f32(slope, s_qx)
            a, best = choose(best, gain, slope, a), larger_f32(gain, best)
        return a

    @inline
    def error_of(x: int, w: int, a: Vector) -> Vector:
        """Σ w (x - a q)² of the nearest q."""
        inverse, minus_a, error = quotient(all_lanes(1), a), negative(a), all_lanes(0)
        for i in range(0, last, 64):
            v = load_f32x16(x + i)
            r = fma_f32(minus_a, level(mul_f32(v, inverse)), v)
            error = fma_f32(mul_f32(load_f32x16(w + i), r), r, error)
        return error

    @inline
    def search_grid(x: int, w: int, a: Vector, d: Vector) -> tuple[Vector, Vector]:
        """Step 2: (error, scale)."""
        best, scale = all_lanes(_INFINITE), all_lanes(0)
        center = round_f32(quotient(a, d))
        for k in range(-reach, reach + 1):
            s = nearest(add_f32(center, all_lanes(k)), -steps, steps - 1)
            error = error_of(x, w, mul_f32(d, s))
            scale, best = choose(error, best, s, scale), smaller_f32(error, best)
        return best, scale

    @inline
    def first_d(a: Vector) -> Vector:
        """d, with the sign that makes the scale of the largest |a| negative: there is one more negative scale."""
        high, low = largest_across(a), largest_across(negative(a))
        d = scale_for(larger_f32(high, low), steps, margin)
        return choose(low, high, negative(d), d)

    @inline
    def refit(x: int, w: int, scale: Vector, d: Vector) -> Vector:
        """Step 3: the d for which x = d · (scale q) is best."""
        s_qq, s_qx = sums(x, w, quotient(all_lanes(1), mul_f32(d, scale)))
        squares = add_across(mul_f32(mul_f32(scale, scale), s_qq))
        return stored_scale(quotient(add_across(mul_f32(scale, s_qx)), squares))

    @inline
    def search(x: int, w: int, q: int) -> tuple[Vector, Vector, Vector, Vector]:
        a = fit_blocks(x, w)
        d = first_d(a)
        error, scale = search_grid(x, w, a, d)
        for _ in range(rounds):
            new_d = refit(x, w, scale, d)
            new_error, new_scale = search_grid(x, w, mul_f32(d, scale), new_d)
            new, old = add_across(new_error), add_across(error)
            d, scale = choose(new, old, new_d, d), choose(new, old, new_scale, scale)
            error = choose(new, old, new_error, error)
        inverse = quotient(all_lanes(1), mul_f32(d, scale))
        for i in range(0, last, 64):
            store_f32x16(q + i, add_f32(level(mul_f32(load_f32x16(x + i), inverse)), all_lanes(offset)))
        return scale, scale, d, mul_f32(d, all_lanes(offset))

    return search
