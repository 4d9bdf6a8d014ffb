"""The result record of every encoder: the first value that cannot be encoded, and sums of squares.

    word  0          1                  2
          first bad  Σ (x - decoded)²   Σ x²       an int64 index or -1, then two float64

A value is bad if it is NaN or its magnitude is above the format's limit; the encoder stops at the first one.
"""

from kquants.compiler.decorators import Vector, inline
from kquants.encoders.vectors import lanes_beyond, lowest_bit
from kquants.simd import load_f32x16, load_f32x16_part, store_f64, store_i64, sum_f64


@inline
def first_beyond(source: int, n: int, limit: float) -> int:
    """The index of the first of n float32 that is NaN or beyond ± limit; -1 if there is none."""
    flags, whole = 0, n & ~15
    for k in range(0, whole, 16):
        flags |= lanes_beyond(load_f32x16(source + 4 * k), limit)
    flags |= lanes_beyond(load_f32x16_part(source + 4 * whole, n - whole), limit)
    return _find_beyond(source, n, limit) if flags != 0 else -1


@inline
def _find_beyond(source: int, n: int, limit: float) -> int:
    for k in range(0, n, 16):
        flags = lanes_beyond(load_f32x16_part(source + 4 * k, n - k), limit)
        if flags != 0:
            return k + lowest_bit(flags)
    return -1


@inline
def write_result(result: int, errors: Vector, squares: Vector) -> None:
    """Write the result of rows that were encoded."""
    store_i64(result, -1)
    store_f64(result + 8, sum_f64(errors))
    store_f64(result + 16, sum_f64(squares))


@inline
def write_bad(result: int, index: int) -> None:
    """Write that the value at `index` cannot be encoded."""
    store_i64(result, index)
    store_f64(result + 8, 0.0)
    store_f64(result + 16, 0.0)
