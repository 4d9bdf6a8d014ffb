"""Scales of the formats of grids: blocks of weights |x| ≈ a · q, where each 4 or 8 of the q are a point of a grid.

The search minimizes the squared error Σ v (x - a q)² of the stored values, where v = w · ⁴√(1 + x² / mean x²) and w are
the weights: with so few bits, the errors of large weights are a little worse than their squares. (llama.cpp takes the
square root instead of the fourth. With this v, its sum of errors is smaller than with its encoder, and Σ w (x - a q)²,
too.) All blocks of a super-block share d; a = unit · d · scale, where scales are odd integers 1 … 31. For a given a,
`grid_search` finds the nearest points. Three steps:

1. For each block: map the largest |x| to several numbers of the largest level, find the nearest points, and solve for
   the best a of these (least squares).
2. Take d from the largest a; for each block, choose the best of the scales around its a.
3. For these points and scales, solve for the best d (least squares), and repeat step 2 around it; a super-block whose
   error does not fall stays as it was.

Where signs have even parity, an even number of each eight weights is negative: of eight with an odd number, the weight
whose sign costs least is stored with the wrong sign. It costs 4 v |x| a q, where step 1 takes |x| for q, as it does not
know the points yet.

A block is a lane (see `kquants.encoders.lane_ops`); x, w and q are the addresses of a vector for each of the n values.
"""

from typing import Any

from kquants.compiler.decorators import Vector, inline
from kquants.encoders.grid_search import nearest_points
from kquants.encoders.lane_ops import (
    across,
    all_lanes,
    choose,
    nearest,
    negative,
    quotient,
    scale_for,
    smaller_f32,
    square_roots,
    stored_scale,
)
from kquants.encoders.scale_search import LARGEST_HALF
from kquants.encoders.vectors import stack_buffer
from kquants.formats.grids.grid import Grid
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

STARTS = tuple(0.4 + 0.05 * k for k in range(15))
"""What step 1 maps the largest |x| to, as parts of the largest level."""

_INFINITE = float("inf")
_LARGEST_SCALE = 31
_ROUNDS = 2


def grid_scale_search(grid: Grid, n: int, unit: float, has_parity: bool, starts: tuple[float, ...] = STARTS) -> Any:
    """`search(x, w, q) -> (scale, minimum, d, dmin)`, which writes q with signs: x ≈ unit · d · scale · q.

    Blocks have n values, super-blocks 256. Step 1 tries the `starts`. Minima are 0.
    """
    add_across, largest_across = across(256 // n)
    points, last, count = nearest_points(grid, n), 64 * n, len(starts)
    largest_level, inverse_unit = grid.levels[-1], 1 / unit
    take_buffer = stack_buffer(2 * last)

    @inline
    def sums(y: int, w: int, a: Vector, q: int) -> tuple[Vector, Vector]:
        """Σ w q², Σ w q y of the points nearest to y / a, which are written to q."""
        points(y, w, a, q)
        s_qq = s_qy = all_lanes(0)
        for i in range(0, last, 64):
            v = load_f32x16(q + i)
            wq = mul_f32(load_f32x16(w + i), v)
            s_qq, s_qy = fma_f32(wq, v, s_qq), fma_f32(wq, load_f32x16(y + i), s_qy)
        return s_qq, s_qy

    @inline
    def magnitudes(x: int, y: int) -> Vector:
        """Write |x| to y; return the largest."""
        largest = all_lanes(0)
        for i in range(0, last, 64):
            v = abs_f32(load_f32x16(x + i))
            largest = larger_f32(v, largest)
            store_f32x16(y + i, v)
        return largest

    @inline
    def raise_large(x: int, w: int, to: int) -> None:
        """Write v: the weights w, raised where |x| is large in its super-block."""
        squares = all_lanes(0)
        for i in range(0, last, 64):
            squares = fma_f32(load_f32x16(x + i), load_f32x16(x + i), squares)
        inverse = quotient(all_lanes(256), add_across(squares))
        for i in range(0, last, 64):
            relative = mul_f32(mul_f32(load_f32x16(x + i), load_f32x16(x + i)), inverse)
            factor = square_roots(square_roots(add_f32(relative, all_lanes(1))))
            store_f32x16(to + i, mul_f32(load_f32x16(w + i), factor))

    @inline
    def make_even(x: int, y: int, w: int, q: int) -> None:
        """Set the signs of y: negative where the sign of a weight has to be wrong."""
        for i in range(0, last, 512):
            parity, least = all_lanes(1), all_lanes(_INFINITE)
            for k in range(i, i + 512, 64):
                v = load_f32x16(x + k)
                parity = choose(v, all_lanes(0), negative(parity), parity)
                least = smaller_f32(mul_f32(mul_f32(load_f32x16(w + k), abs_f32(v)), load_f32x16(q + k)), least)
            for k in range(i, i + 512, 64):
                size = abs_f32(load_f32x16(y + k))
                cost = mul_f32(mul_f32(load_f32x16(w + k), size), load_f32x16(q + k))
                sign = choose(least, cost, all_lanes(1), parity)
                store_f32x16(y + k, copysign_f32(size, sign))
                parity = copysign_f32(all_lanes(1), mul_f32(parity, sign))

    @inline
    def fit_blocks(y: int, w: int, q: int, largest: Vector) -> Vector:
        """Step 1: a."""
        best = a = all_lanes(0)
        for k in range(count):
            s_qq, s_qy = sums(y, w, mul_f32(largest, all_lanes(1 / (starts[k] * largest_level))), q)
            # With the best a, Σ w (y - a q)² = Σ w y² - a Σ w q y.
            slope = larger_f32(quotient(s_qy, s_qq), all_lanes(0))
            gain = mul_f32(slope, s_qy)
            a, best = choose(best, gain, slope, a), larger_f32(gain, best)
        return a

    @inline
    def choose_scales(y: int, w: int, q: int, a: Vector, unit_d: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        """Step 2: the scale around a, its error less Σ w y², and its `sums`."""
        best, scale, best_qq, best_qy = all_lanes(_INFINITE), all_lanes(1), all_lanes(0), all_lanes(0)
        center = mul_f32(sub_f32(quotient(a, unit_d), all_lanes(1)), all_lanes(0.5))
        for k in range(-1, 2):
            step = nearest(add_f32(center, all_lanes(k)), 0, (_LARGEST_SCALE - 1) // 2)
            s = add_f32(add_f32(step, step), all_lanes(1))
            b = mul_f32(unit_d, s)
            s_qq, s_qy = sums(y, w, b, q)
            error = mul_f32(b, sub_f32(mul_f32(b, s_qq), add_f32(s_qy, s_qy)))
            scale, best_qq = choose(error, best, s, scale), choose(error, best, s_qq, best_qq)
            best_qy, best = choose(error, best, s_qy, best_qy), smaller_f32(error, best)
        return scale, best, best_qq, best_qy

    @inline
    def search(x: int, w: int, q: int) -> tuple[Vector, Vector, Vector, Vector]:
        y = take_buffer()
        v = y + last
        raise_large(x, w, v)
        largest = magnitudes(x, y)
        if has_parity:
            make_even(x, y, v, y)
        a = fit_blocks(y, v, q, largest)
        if has_parity:
            points(y, v, a, q)
            make_even(x, y, v, q)
        d, scale, error = all_lanes(0), all_lanes(1), all_lanes(0)
        new_d = scale_for(mul_f32(largest_across(a), all_lanes(inverse_unit)), _LARGEST_SCALE, 0)
        for _ in range(1 + _ROUNDS):
            new_d = smaller_f32(new_d, all_lanes(LARGEST_HALF))
            new_scale, new_error, s_qq, s_qy = choose_scales(y, v, q, a, mul_f32(new_d, all_lanes(unit)))
            new_error = add_across(new_error)
            d, scale = choose(new_error, error, new_d, d), choose(new_error, error, new_scale, scale)
            error = smaller_f32(new_error, error)
            a = mul_f32(mul_f32(new_d, all_lanes(unit)), new_scale)
            squares = add_across(mul_f32(mul_f32(new_scale, new_scale), s_qq))
            best = quotient(add_across(mul_f32(new_scale, s_qy)), squares)
            new_d = stored_scale(mul_f32(larger_f32(best, all_lanes(0)), all_lanes(inverse_unit)))
        points(y, v, mul_f32(mul_f32(d, all_lanes(unit)), scale), q)
        for i in range(0, last, 64):
            signed = copysign_f32(load_f32x16(q + i), load_f32x16(y + i))
            store_f32x16(q + i, choose(load_f32x16(x + i), all_lanes(0), negative(signed), signed))
        return scale, all_lanes(0), d, all_lanes(0)

    return search
