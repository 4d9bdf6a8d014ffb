"""Scales and minima of K-quants: blocks of weights x ≈ a · q - b with q in 0 … levels and b >= 0.

The search minimizes the weighted squared error Σ w (x - (a q - b))² of the stored values. All blocks of a super-block
share d and dmin; a = d · scale and b = dmin · minimum, with integers 0 … steps. Three steps:

1. For each block: spread its range over several numbers of levels, round, and solve for the best (a, b) of these q
   (least squares).
2. Take d and dmin from the largest a and b; for each block, choose the best (scale, minimum) around its (a, b).
3. For these q, scales and minima, solve for the best d and dmin (least squares), and repeat step 2 around them; a
   super-block whose error does not fall stays as it was.

A block is a lane (see `kquants.encoders.lane_ops`); x, w and q are the addresses of its values, weights and integers q:
a vector for each of the n values.
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
from kquants.encoders.least_squares import fit_line, line_error
from kquants.simd import add_f32, fma_f32, larger_f32, load_f32x16, mul_f32, round_f32, store_f32x16, sub_f32

Pair = tuple[Vector, Vector]
Sums = tuple[Vector, Vector, Vector]

_INFINITE = float("inf")

_MARGIN = 2
"""Steps above the largest scale that are left for the search. Without them, the error of blocks with outliers was 2 %
higher."""


def k_scale_min_search(
    n: int, levels: int, steps: int, group: int, spreads: tuple[float, ...], reach: tuple[int, int], rounds: int
) -> Any:
    """`search(x, w, q) -> (scale, minimum, d, dmin)`, which writes q.

    Blocks have n values, super-blocks `group` blocks. Step 1 tries the `spreads`, step 2 scales and minima up to
    `reach` away; step 3 is repeated `rounds` times.
    """
    add_across, largest_across = across(group)
    (far, wide), last, count = reach, 64 * n, len(spreads)

    @inline
    def extremes(x: int) -> Pair:
        """(min(0, the least value), max(0, the largest value))."""
        low = high = all_lanes(0)
        for i in range(0, last, 64):
            v = load_f32x16(x + i)
            low, high = smaller_f32(v, low), larger_f32(v, high)
        return low, high

    @inline
    def sums_of_x(x: int, w: int, low: Vector) -> Sums:
        """Σ w, Σ w y, Σ w y² of y = x - low."""
        s_w = s_y = s_yy = all_lanes(0)
        for i in range(0, last, 64):
            y, weight = sub_f32(load_f32x16(x + i), low), load_f32x16(w + i)
            wy = mul_f32(weight, y)
            s_w, s_y, s_yy = add_f32(s_w, weight), add_f32(s_y, wy), fma_f32(wy, y, s_yy)
        return s_w, s_y, s_yy

    @inline
    def sums_of_q(x: int, w: int, low: Vector, inverse: Vector) -> Sums:
        """Σ w q, Σ w q², Σ w q y of y = x - low and the q nearest to y · inverse."""
        s_q = s_qq = s_qy = all_lanes(0)
        for i in range(0, last, 64):
            y = sub_f32(load_f32x16(x + i), low)
            q = nearest(mul_f32(y, inverse), 0, levels)
            wq = mul_f32(load_f32x16(w + i), q)
            s_q, s_qq, s_qy = add_f32(s_q, wq), fma_f32(wq, q, s_qq), fma_f32(wq, y, s_qy)
        return s_q, s_qq, s_qy

    @inline
    def fit_blocks(x: int, w: int) -> Pair:
        """Step 1: (a, b)."""
        low, high = extremes(x)
        of_x, span, most = sums_of_x(x, w, low), sub_f32(high, low), negative(low)
        best, a, b = all_lanes(_INFINITE), all_lanes(0), most
        for k in range(count):
            of_q = sums_of_q(x, w, low, quotient(all_lanes(spreads[k]), span))
            slope, start = fit_line(of_x, of_q, most)
            error = line_error(slope, start, of_x, of_q)
            a, b = choose(error, best, slope, a), choose(error, best, sub_f32(most, start), b)
            best = smaller_f32(error, best)
        return a, b

    @inline
    def error_of(x: int, w: int, a: Vector, b: Vector) -> Vector:
        """Σ w (x - (a q - b))² of the nearest q."""
        inverse, minus_a, error = quotient(all_lanes(1), a), negative(a), all_lanes(0)
        for i in range(0, last, 64):
            y = add_f32(load_f32x16(x + i), b)
            r = fma_f32(minus_a, nearest(mul_f32(y, inverse), 0, levels), y)
            error = fma_f32(mul_f32(load_f32x16(w + i), r), r, error)
        return error

    @inline
    def search_grid(x: int, w: int, a: Vector, b: Vector, d: Vector, dmin: Vector) -> Sums:
        """Step 2: (error, scale, minimum)."""
        best, scale, minimum = all_lanes(_INFINITE), all_lanes(0), all_lanes(0)
        center, per_dmin = round_f32(quotient(a, d)), quotient(all_lanes(1), dmin)
        for k in range(-far, far + 1):
            s = nearest(add_f32(center, all_lanes(k)), 0, steps)
            # The minimum is moved so that the middle of the block stays where it is.
            moved = fma_f32(sub_f32(mul_f32(s, d), a), all_lanes(levels / 2), b)
            near = round_f32(mul_f32(moved, per_dmin))
            for j in range(-wide, wide + 1):
                m = nearest(add_f32(near, all_lanes(j)), 0, steps)
                error = error_of(x, w, mul_f32(d, s), mul_f32(dmin, m))
                scale, minimum = choose(error, best, s, scale), choose(error, best, m, minimum)
                best = smaller_f32(error, best)
        return best, scale, minimum

    @inline
    def refit(x: int, w: int, scale: Vector, minimum: Vector, d: Vector, dmin: Vector) -> Pair:
        """Step 3: the (d, dmin) for which x = d · (scale q) - dmin · minimum is best."""
        low = negative(mul_f32(dmin, minimum))
        s_q, s_qq, s_qy = sums_of_q(x, w, low, quotient(all_lanes(1), mul_f32(d, scale)))
        s_w, s_x, _ = sums_of_x(x, w, all_lanes(0))
        s_qx = fma_f32(low, s_q, s_qy)
        uu, vv = add_across(mul_f32(mul_f32(scale, scale), s_qq)), add_across(mul_f32(mul_f32(minimum, minimum), s_w))
        uv = add_across(mul_f32(mul_f32(scale, minimum), s_q))
        ux, vx = add_across(mul_f32(scale, s_qx)), add_across(mul_f32(minimum, s_x))
        slope, start = fit_line((vv, negative(vx), vx), (negative(uv), uu, ux), all_lanes(_INFINITE))
        return stored_scale(larger_f32(slope, all_lanes(0))), stored_scale(larger_f32(start, all_lanes(0)))

    @inline
    def search(x: int, w: int, q: int) -> tuple[Vector, Vector, Vector, Vector]:
        a, b = fit_blocks(x, w)
        d, dmin = scale_for(largest_across(a), steps, _MARGIN), scale_for(largest_across(b), steps, _MARGIN)
        error, scale, minimum = search_grid(x, w, a, b, d, dmin)
        for _ in range(rounds):
            new_d, new_dmin = refit(x, w, scale, minimum, d, dmin)
            a, b = mul_f32(d, scale), mul_f32(dmin, minimum)
            new_error, new_scale, new_minimum = search_grid(x, w, a, b, new_d, new_dmin)
            new, old = add_across(new_error), add_across(error)
            d, dmin = choose(new, old, new_d, d), choose(new, old, new_dmin, dmin)
            scale, minimum = choose(new, old, new_scale, scale), choose(new, old, new_minimum, minimum)
            error = choose(new, old, new_error, error)
        b, inverse = mul_f32(dmin, minimum), quotient(all_lanes(1), mul_f32(d, scale))
        for i in range(0, last, 64):
            store_f32x16(q + i, nearest(mul_f32(add_f32(load_f32x16(x + i), b), inverse), 0, levels))
        return scale, minimum, d, dmin

    return search
