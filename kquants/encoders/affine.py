"""The search for scales and minima: blocks of weights x ≈ a · q - b with q in 0 … levels and b >= 0.

What is minimised is the weighted squared error Σ w (x - (a q - b))² of what will be stored, where all blocks of a
super-block share d and dmin, and a = d · scale, b = dmin · minimum with whole numbers 0 … steps. In three steps:

1. For each block alone: from several ranges, round, and solve for the best (a, b) of these q (least squares).
2. d and dmin from the largest a and b; for each block, the best of the (scale, minimum) around its (a, b).
3. With q, scale and minimum of all blocks given, the best d and dmin (least squares), then step 2 around them;
   whatever is not better is dropped.

A block is a lane (see `kquants.encoders.lanes`); x and w are the addresses of its values and weights: a vector for
each of the n values.
"""

from typing import Any

import numba as nb

from kquants.decorators import Vector, inline
from kquants.encoders.lanes import across, choose, quotient, smaller_f32
from kquants.encoders.vectors import round_to_half
from kquants.simd import (
    add_f32,
    fma_f32,
    larger_f32,
    load_f32x16,
    mul_f32,
    round_f32,
    splat_f32,
    store_f32x16,
    sub_f32,
)

_LEAST = nb.float32(2.0**-24)
"""The smallest float16 above 0."""

_INFINITE = nb.float32(float("inf"))


def affine_search(
    n: int,
    levels: int,
    steps: int,
    group: int,
    first: float,
    step: float,
    starts: int,
    reach: tuple[int, int],
    rounds: int,
) -> Any:
    """`search(x, w, q) -> (scale, minimum, d, dmin)`, and the q of each value in a vector at q.

    Blocks have n values, super-blocks `group` blocks.
    """
    add_across, largest_across = across(group)
    most, top = nb.float32(levels), nb.float32(steps)
    far, wide = reach

    @inline
    def whole(x: Vector, highest: float) -> Vector:
        """x rounded, within 0 … highest."""
        return smaller_f32(larger_f32(round_f32(x), splat_f32(nb.float32(0))), splat_f32(highest))

    @inline
    def sums(x: Vector, w: Vector, low: Vector, inverse: Vector) -> tuple[Vector, Vector, Vector]:
        """Σ w q, Σ w q², Σ w q (x - low) of q = (x - low) · inverse rounded."""
        zero = splat_f32(nb.float32(0))
        s_q, s_qq, s_qx = zero, zero, zero
        for i in range(0, 64 * n, 64):
            y = sub_f32(load_f32x16(x + i), low)
            q = whole(mul_f32(y, inverse), most)
            wq = mul_f32(load_f32x16(w + i), q)
            s_q, s_qq, s_qx = add_f32(s_q, wq), fma_f32(wq, q, s_qq), fma_f32(wq, y, s_qx)
        return s_q, s_qq, s_qx

    @inline
    def moments(x: int, w: int, low: Vector) -> tuple[Vector, Vector, Vector]:
        """Σ w, Σ w (x - low), Σ w (x - low)²."""
        zero = splat_f32(nb.float32(0))
        s_w, s_x, s_xx = zero, zero, zero
        for i in range(0, 64 * n, 64):
            y, weight = sub_f32(load_f32x16(x + i), low), load_f32x16(w + i)
            wy = mul_f32(weight, y)
            s_w, s_x, s_xx = add_f32(s_w, weight), add_f32(s_x, wy), fma_f32(wy, y, s_xx)
        return s_w, s_x, s_xx

    @inline
    def extremes(x: int) -> tuple[Vector, Vector]:
        """The least value, but at most 0, and the largest, but at least 0."""
        zero = splat_f32(nb.float32(0))
        low, high = zero, zero
        for i in range(0, 64 * n, 64):
            v = load_f32x16(x + i)
            low, high = smaller_f32(v, low), larger_f32(v, high)
        return low, high

    @inline
    def blocks_alone(x: int, w: int) -> tuple[Vector, Vector]:
        """Step 1: (a, b)."""
        zero = splat_f32(nb.float32(0))
        low, high = extremes(x)
        s_w, s_x, s_xx = moments(x, w, low)
        best, a, b = splat_f32(_INFINITE), zero, sub_f32(zero, low)
        unit = quotient(splat_f32(nb.float32(1)), sub_f32(high, low))
        for k in range(starts):
            inverse = mul_f32(unit, splat_f32(nb.float32(levels + first) + nb.float32(step) * nb.float32(k)))
            s_q, s_qq, s_qx = sums(x, w, low, inverse)
            # Σ w (x - low - a q - c)² is least where its derivatives by a and c are 0.
            determinant = sub_f32(mul_f32(s_w, s_qq), mul_f32(s_q, s_q))
            slope = quotient(sub_f32(mul_f32(s_w, s_qx), mul_f32(s_q, s_x)), determinant)
            c = quotient(sub_f32(mul_f32(s_qq, s_x), mul_f32(s_q, s_qx)), determinant)
            # b = -(low + c) may not be negative
            bounded = smaller_f32(c, sub_f32(zero, low))
            slope = choose(bounded, c, quotient(sub_f32(s_qx, mul_f32(bounded, s_q)), s_qq), slope)
            c = bounded
            # Σ w (y - a q - c)²
            error = fma_f32(mul_f32(slope, slope), s_qq, s_xx)
            error = fma_f32(mul_f32(c, c), s_w, error)
            two = splat_f32(nb.float32(2))
            error = fma_f32(mul_f32(two, mul_f32(slope, c)), s_q, error)
            error = sub_f32(error, mul_f32(two, fma_f32(slope, s_qx, mul_f32(c, s_x))))
            a, b = choose(error, best, slope, a), choose(error, best, sub_f32(sub_f32(zero, low), c), b)
            best = smaller_f32(error, best)
        return a, b

    @inline
    def error_of(x: int, w: int, a: Vector, b: Vector) -> Vector:
        """Σ w (x - (a q - b))² of the nearest q."""
        inverse, error = quotient(splat_f32(nb.float32(1)), a), splat_f32(nb.float32(0))
        minus_a = sub_f32(splat_f32(nb.float32(0)), a)
        for i in range(0, 64 * n, 64):
            y = add_f32(load_f32x16(x + i), b)
            r = fma_f32(minus_a, whole(mul_f32(y, inverse), most), y)
            error = fma_f32(mul_f32(load_f32x16(w + i), r), r, error)
        return error

    @inline
    def on_the_grid(x: int, w: int, a: Vector, b: Vector, d: Vector, dmin: Vector) -> tuple[Vector, Vector, Vector]:
        """Step 2: (error, scale, minimum)."""
        best, zero = splat_f32(_INFINITE), splat_f32(nb.float32(0))
        scale, minimum = zero, zero
        one = splat_f32(nb.float32(1))
        per_d, per_dmin = quotient(one, d), quotient(one, dmin)
        center = round_f32(mul_f32(a, per_d))
        half = splat_f32(nb.float32(0.5 * levels))
        for k in range(-far, far + 1):
            s = whole(add_f32(center, splat_f32(nb.float32(k))), top)
            # The middle of the range stays where it is.
            b_s = fma_f32(sub_f32(mul_f32(s, d), a), half, b)
            near = round_f32(mul_f32(b_s, per_dmin))
            for j in range(-wide, wide + 1):
                m = whole(add_f32(near, splat_f32(nb.float32(j))), top)
                error = error_of(x, w, mul_f32(d, s), mul_f32(dmin, m))
                scale, minimum = choose(error, best, s, scale), choose(error, best, m, minimum)
                best = smaller_f32(error, best)
        return best, scale, minimum

    @inline
    def refit(x: int, w: int, scale: Vector, minimum: Vector, d: Vector, dmin: Vector) -> tuple[Vector, Vector]:
        """Step 3: the best (d, dmin) of the q, scales and minima given."""
        zero = splat_f32(nb.float32(0))
        b = mul_f32(dmin, minimum)
        inverse = quotient(splat_f32(nb.float32(1)), mul_f32(d, scale))
        s_q, s_qq, s_qx = sums(x, w, sub_f32(zero, b), inverse)
        s_w, s_x, _ = moments(x, w, zero)
        s_qx = sub_f32(s_qx, mul_f32(b, s_q))
        # x = d · (scale q) - dmin · minimum
        uu = add_across(mul_f32(mul_f32(scale, scale), s_qq))
        uv = add_across(mul_f32(mul_f32(scale, minimum), s_q))
        vv = add_across(mul_f32(mul_f32(minimum, minimum), s_w))
        ux, vx = add_across(mul_f32(scale, s_qx)), add_across(mul_f32(minimum, s_x))
        determinant = sub_f32(mul_f32(uu, vv), mul_f32(uv, uv))
        both = quotient(sub_f32(mul_f32(vv, ux), mul_f32(uv, vx)), determinant)
        second = quotient(sub_f32(mul_f32(uv, ux), mul_f32(uu, vx)), determinant)
        alone = quotient(ux, uu)
        return choose(zero, determinant, both, alone), choose(zero, determinant, second, zero)

    @inline
    def stored(x: Vector) -> Vector:
        """x as float16 holds it: 0 and below as 0, anything else as at least the smallest above."""
        zero = splat_f32(nb.float32(0))
        return choose(zero, x, round_to_half(larger_f32(x, splat_f32(_LEAST))), zero)

    @inline
    def search(x: int, w: int, q: int) -> tuple[Vector, Vector, Vector, Vector]:
        a, b = blocks_alone(x, w)
        d = stored(mul_f32(largest_across(a), splat_f32(nb.float32(1 / steps))))
        dmin = stored(mul_f32(largest_across(b), splat_f32(nb.float32(1 / steps))))
        error, scale, minimum = on_the_grid(x, w, a, b, d, dmin)
        for _ in range(rounds):
            d2, dmin2 = refit(x, w, scale, minimum, d, dmin)
            d2, dmin2 = stored(d2), stored(dmin2)
            error2, scale2, minimum2 = on_the_grid(x, w, mul_f32(d, scale), mul_f32(dmin, minimum), d2, dmin2)
            new, old = add_across(error2), add_across(error)
            d, dmin = choose(new, old, d2, d), choose(new, old, dmin2, dmin)
            scale, minimum = choose(new, old, scale2, scale), choose(new, old, minimum2, minimum)
            error = choose(new, old, error2, error)
        b, inverse = mul_f32(dmin, minimum), quotient(splat_f32(nb.float32(1)), mul_f32(d, scale))
        for i in range(0, 64 * n, 64):
            store_f32x16(q + i, whole(mul_f32(add_f32(load_f32x16(x + i), b), inverse), most))
        return scale, minimum, d, dmin

    return search
