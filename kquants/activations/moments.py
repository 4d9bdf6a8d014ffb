"""Means of rows of float32: of values, squares and squared deviations.

A sum adds every 16th value in a lane of its own, then the lanes in the order of `sum_f32`. The variance is a pass over
the deviations from the mean, as mean(x²) - mean(x)² would cancel.
"""

import numba as nb

from kquants.compiler.decorators import Vector, inline
from kquants.simd import add_f32, fma_f32, keep_f32, load_f32x16_part, splat_f32, sub_f32, sum_f32


@inline
def mean(x: int, n: int) -> float:
    """The mean of n values."""
    total = splat_f32(nb.float32(0))
    for k in range(0, n, 16):
        total = add_f32(total, load_f32x16_part(x + 4 * k, n - k))
    return _divided(total, n)


@inline
def mean_square(x: int, n: int) -> float:
    """The mean of the squares of n values."""
    squares = splat_f32(nb.float32(0))
    for k in range(0, n, 16):
        v = load_f32x16_part(x + 4 * k, n - k)
        squares = fma_f32(v, v, squares)
    return _divided(squares, n)


@inline
def variance(x: int, center: float, n: int) -> float:
    """The mean of the squared deviations of n values from their mean, `center`."""
    squares = splat_f32(nb.float32(0))
    for k in range(0, n, 16):
        v = keep_f32(sub_f32(load_f32x16_part(x + 4 * k, n - k), splat_f32(center)), n - k, nb.float32(0))
        squares = fma_f32(v, v, squares)
    return _divided(squares, n)


@inline
def _divided(total: Vector, n: int) -> float:
    return sum_f32(total) / nb.float32(n)
