"""The line y = a q + c of the least weighted squared error, from sums over the values of each lane.

Of y there are (Σ w, Σ w y, Σ w y²), and with q (Σ w q, Σ w q², Σ w q y).
"""

from kquants.compiler.decorators import Vector, inline
from kquants.encoders.lanes import all_lanes, choose, quotient, smaller_f32
from kquants.simd import add_f32, fma_f32, mul_f32, sub_f32

Sums = tuple[Vector, Vector, Vector]


@inline
def line(of_y: Sums, of_q: Sums, most: Vector) -> tuple[Vector, Vector]:
    """(a, c), with c at most `most`: where the derivatives of Σ w (y - a q - c)² by both are 0."""
    (s_w, s_y, _), (s_q, s_qq, s_qy) = of_y, of_q
    both = mul_f32(s_w, s_qq)
    determinant = sub_f32(both, mul_f32(s_q, s_q))
    c = quotient(sub_f32(mul_f32(s_qq, s_y), mul_f32(s_q, s_qy)), determinant)
    # If all q are the same, the determinant is what rounding left of 0, and c could be anything.
    c = choose(mul_f32(both, all_lanes(1e-4)), determinant, c, all_lanes(0))
    c = smaller_f32(c, most)
    return quotient(sub_f32(s_qy, mul_f32(c, s_q)), s_qq), c


@inline
def error_of_line(a: Vector, c: Vector, of_y: Sums, of_q: Sums) -> Vector:
    """Σ w (y - a q - c)²."""
    (s_w, s_y, s_yy), (s_q, s_qq, s_qy) = of_y, of_q
    by_a = fma_f32(a, s_qq, sub_f32(mul_f32(c, s_q), add_f32(s_qy, s_qy)))
    by_c = fma_f32(c, s_w, sub_f32(mul_f32(a, s_q), add_f32(s_y, s_y)))
    return fma_f32(a, by_a, fma_f32(c, by_c, s_yy))
