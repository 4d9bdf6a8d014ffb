"""Weighted least squares: the line y ≈ a q + c, from sums over the values of each lane.

The sums `of_y` are (Σ w, Σ w y, Σ w y²), the sums `of_q` (Σ w q, Σ w q², Σ w q y).
"""

from kquants.compiler.decorators import Vector, inline
from kquants.encoders.lane_ops import all_lanes, choose, quotient, smaller_f32
from kquants.simd import add_f32, fma_f32, mul_f32, sub_f32

Sums = tuple[Vector, Vector, Vector]


@inline
def fit_line(of_y: Sums, of_q: Sums, most: Vector) -> tuple[Vector, Vector]:
    """(a, c) that minimize Σ w (y - a q - c)²: where its derivatives by a and c are 0. c is at most `most`."""
    (s_w, s_y, _), (s_q, s_qq, s_qy) = of_y, of_q
    both = mul_f32(s_w, s_qq)
    determinant = sub_f32(both, mul_f32(s_q, s_q))
    c = quotient(sub_f32(mul_f32(s_qq, s_y), mul_f32(s_q, s_qy)), determinant)
    # If all q are the same, the determinant is a rounding error instead of 0, and c is undetermined.
    c = choose(mul_f32(both, all_lanes(1e-4)), determinant, c, all_lanes(0))
    c = smaller_f32(c, most)
    return quotient(sub_f32(s_qy, mul_f32(c, s_q)), s_qq), c


@inline
def line_error(a: Vector, c: Vector, of_y: Sums, of_q: Sums) -> Vector:
    """Σ w (y - a q - c)²."""
    (s_w, s_y, s_yy), (s_q, s_qq, s_qy) = of_y, of_q
    by_a = fma_f32(a, s_qq, sub_f32(mul_f32(c, s_q), add_f32(s_qy, s_qy)))
    by_c = fma_f32(c, s_w, sub_f32(mul_f32(a, s_q), add_f32(s_y, s_y)))
    return fma_f32(a, by_a, fma_f32(c, by_c, s_yy))
