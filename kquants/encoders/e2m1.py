"""The levels of MXFP4 and NVFP4, floats of four bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6, and their negatives (OCP Microscaling
Formats 1.0, section 5.3.3)."""

from typing import Any

from kquants.compiler.decorators import Vector, inline
from kquants.encoders.lane_ops import all_lanes, choose, smaller_f32
from kquants.simd import abs_f32, add_f32, fma_f32, larger_f32, load_f32x16, mul_f32, round_f32, sub_f32

HIGHEST = 6.0


@inline
def nearest(t: Vector) -> Vector:
    """The level nearest to t."""
    t = smaller_f32(larger_f32(t, all_lanes(-HIGHEST)), all_lanes(HIGHEST))
    size = abs_f32(t)
    steps = choose(size, all_lanes(2), all_lanes(2), choose(size, all_lanes(4), all_lanes(1), all_lanes(0.5)))
    step = choose(size, all_lanes(2), all_lanes(0.5), choose(size, all_lanes(4), all_lanes(1), all_lanes(2)))
    return mul_f32(round_f32(mul_f32(t, steps)), step)


@inline
def code(v: Vector) -> Vector:
    """The code of a level: bit 3 is the sign, the others are its place among the magnitudes."""
    size = abs_f32(v)
    far = choose(size, all_lanes(4), add_f32(size, all_lanes(2)), fma_f32(size, all_lanes(0.5), all_lanes(4)))
    place = choose(size, all_lanes(2), add_f32(size, size), far)
    return choose(v, all_lanes(0), add_f32(place, all_lanes(8)), place)


def error_of(n: int) -> Any:
    """`error(x, weights, inverse)`: Σ w (x · inverse - v)² of the levels v nearest to n values x · inverse."""

    @inline
    def error(x: int, weights: int, inverse: Vector) -> Vector:
        total = all_lanes(0)
        for i in range(0, 64 * n, 64):
            t = mul_f32(load_f32x16(x + i), inverse)
            r = sub_f32(t, nearest(t))
            total = fma_f32(mul_f32(load_f32x16(weights + i), r), r, total)
        return total

    return error
