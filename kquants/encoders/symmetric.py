"""The search for scales alone: blocks of weights x ≈ a · q with q in -levels … levels - 1.

What is minimised is the weighted squared error Σ w (x - a q)² of what will be stored, where all blocks of a
super-block share d, and a = d · scale with whole numbers -steps … steps - 1. In three steps:

1. For each block alone: from several scales, round, and solve for the best a of these q (least squares).
2. d such that the largest a is -steps; for each block, the best of the scales around its a.
3. With q and scale of all blocks given, the best d (least squares), then step 2 around it; whatever is not better is
   dropped.

A block is a lane (see `kquants.encoders.lanes`); x and w are the addresses of its values and weights: a vector for
each of the n values.
"""

from typing import Any

import numba as nb

from kquants.decorators import Vector, inline
from kquants.encoders.lanes import across, choose, quotient, smaller_f32
from kquants.encoders.vectors import round_to_half
from kquants.simd import (
    abs_f32,
    add_f32,
    div_f32,
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


def symmetric_search(
    n: int, levels: int, steps: int, first: float, step: float, starts: int, far: tuple[int, int], rounds: int
) -> Any:
    """`search(x, w, q) -> (scale, 0, d, 0)`, and q + levels of each value in a vector at q.

    Blocks have n values, super-blocks sixteen blocks.
    """
    add_across, largest_across = across(16)
    least, most = nb.float32(-levels), nb.float32(levels - 1)
    bottom, top = nb.float32(-steps), nb.float32(steps - 1)

    @inline
    def whole(x: Vector, lowest: float, highest: float) -> Vector:
        """x rounded, within lowest … highest."""
        return smaller_f32(larger_f32(round_f32(x), splat_f32(lowest)), splat_f32(highest))

    @inline
    def sums(x: int, w: int, inverse: Vector) -> tuple[Vector, Vector]:
        """Σ w q², Σ w q x of q = x · inverse rounded."""
        zero = splat_f32(nb.float32(0))
        s_qq, s_qx = zero, zero
        for i in range(0, 64 * n, 64):
            v = load_f32x16(x + i)
            q = whole(mul_f32(v, inverse), least, most)
            wq = mul_f32(load_f32x16(w + i), q)
            s_qq, s_qx = fma_f32(wq, q, s_qq), fma_f32(wq, v, s_qx)
        return s_qq, s_qx

    @inline
    def extreme(x: int) -> Vector:
        """The value that is largest in size."""
        zero = splat_f32(nb.float32(0))
        low, high = zero, zero
        for i in range(0, 64 * n, 64):
            v = load_f32x16(x + i)
            low, high = smaller_f32(v, low), larger_f32(v, high)
        return choose(sub_f32(zero, low), high, high, low)

    @inline
    def blocks_alone(x: int, w: int) -> Vector:
        """Step 1: a."""
        best = a = splat_f32(nb.float32(0))
        unit = quotient(splat_f32(nb.float32(1)), extreme(x))
        for k in range(starts):
            size = nb.float32(levels + first) + nb.float32(step) * nb.float32(k)
            for sign in range(2):
                inverse = mul_f32(unit, splat_f32(size if sign == 1 else -size))
                s_qq, s_qx = sums(x, w, inverse)
                # Σ w (x - a q)² = Σ w x² - (Σ w q x)² / Σ w q² at the best a
                slope = quotient(s_qx, s_qq)
                gain = mul_f32(slope, s_qx)
                a, best = choose(best, gain, slope, a), larger_f32(gain, best)
        return a

    @inline
    def error_of(x: int, w: int, a: Vector) -> Vector:
        """Σ w (x - a q)² of the nearest q."""
        inverse, error = quotient(splat_f32(nb.float32(1)), a), splat_f32(nb.float32(0))
        minus_a = sub_f32(splat_f32(nb.float32(0)), a)
        for i in range(0, 64 * n, 64):
            v = load_f32x16(x + i)
            r = fma_f32(minus_a, whole(mul_f32(v, inverse), least, most), v)
            error = fma_f32(mul_f32(load_f32x16(w + i), r), r, error)
        return error

    @inline
    def on_the_grid(x: int, w: int, a: Vector, d: Vector) -> tuple[Vector, Vector]:
        """Step 2: (error, scale)."""
        best, scale = splat_f32(_INFINITE), splat_f32(nb.float32(0))
        center = round_f32(quotient(a, d))
        for k in range(far[0], far[1] + 1):
            s = whole(add_f32(center, splat_f32(nb.float32(k))), bottom, top)
            error = error_of(x, w, mul_f32(d, s))
            scale, best = choose(error, best, s, scale), smaller_f32(error, best)
        return best, scale

    @inline
    def refit(x: int, w: int, scale: Vector, d: Vector) -> Vector:
        """Step 3: the best d of the q and scales given."""
        s_qq, s_qx = sums(x, w, quotient(splat_f32(nb.float32(1)), mul_f32(d, scale)))
        return quotient(add_across(mul_f32(scale, s_qx)), add_across(mul_f32(mul_f32(scale, scale), s_qq)))

    @inline
    def stored(x: Vector) -> Vector:
        """x as float16 holds it, but at least the smallest above 0, if it is not 0."""
        zero, least = splat_f32(nb.float32(0)), splat_f32(_LEAST)
        size = round_to_half(larger_f32(abs_f32(x), least))
        return choose(zero, x, size, choose(x, zero, sub_f32(zero, size), zero))

    @inline
    def search(x: int, w: int, q: int) -> tuple[Vector, Vector, Vector, Vector]:
        zero = splat_f32(nb.float32(0))
        a = blocks_alone(x, w)
        # The sign of d is such that the largest a takes the scale of the largest size.
        high, low = largest_across(a), largest_across(sub_f32(zero, a))
        d = stored(div_f32(choose(low, high, high, sub_f32(zero, low)), splat_f32(bottom)))
        error, scale = on_the_grid(x, w, a, d)
        for _ in range(rounds):
            d2 = stored(refit(x, w, scale, d))
            error2, scale2 = on_the_grid(x, w, mul_f32(d, scale), d2)
            new, old = add_across(error2), add_across(error)
            d, scale = choose(new, old, d2, d), choose(new, old, scale2, scale)
            error = choose(new, old, error2, error)
        inverse = quotient(splat_f32(nb.float32(1)), mul_f32(d, scale))
        for i in range(0, 64 * n, 64):
            whole_q = whole(mul_f32(load_f32x16(x + i), inverse), least, most)
            store_f32x16(q + i, sub_f32(whole_q, splat_f32(least)))
        # x = a · (stored q) - b with b = levels · a
        return scale, scale, d, mul_f32(d, splat_f32(nb.float32(levels)))

    return search
