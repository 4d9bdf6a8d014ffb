"""Scores of experts from the logits of a router: softmax or sigmoid, float32.

A NaN logit makes scores NaN, all of them with softmax, so that the result shows it.
"""

import math

import numba as nb

from kquants.activations.exponential import exp, times_sigmoid
from kquants.compiler.decorators import inline
from kquants.simd import (
    add_f32,
    div_f32,
    keep_f32,
    larger_f32,
    largest_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    store_f32x16,
    sub_f32,
    sum_f32,
)

_MINUS_INFINITY = nb.float32(-math.inf)


@inline
def scale_logits(logits: int, n: int, scale: float, to: int) -> None:
    """Write scale · logits to `to`, and -inf to the rest of the last vector."""
    for k in range(0, n, 16):
        scaled = mul_f32(splat_f32(scale), load_f32x16_part(logits + 4 * k, n - k))
        store_f32x16(to + 4 * k, keep_f32(scaled, n - k, _MINUS_INFINITY))


@inline
def softmax(logits: int, n: int, to: int) -> None:
    """Write e**(logit - largest) / sum to `to`. The sum adds every 16th value in a lane, then the lanes (`sum_f32`)."""
    above = splat_f32(_MINUS_INFINITY)
    for k in range(0, n, 16):
        above = larger_f32(load_f32x16(logits + 4 * k), above)
    largest, sums = splat_f32(largest_f32(above)), splat_f32(nb.float32(0))
    for k in range(0, n, 16):
        power = exp(sub_f32(load_f32x16(logits + 4 * k), largest))
        sums = add_f32(sums, power)
        store_f32x16(to + 4 * k, power)
    total = splat_f32(sum_f32(sums))
    for k in range(0, n, 16):
        store_f32x16(to + 4 * k, div_f32(load_f32x16(to + 4 * k), total))


@inline
def sigmoid(logits: int, n: int, to: int) -> None:
    """Write 1 / (1 + e**-logit) to `to`."""
    for k in range(0, n, 16):
        store_f32x16(to + 4 * k, times_sigmoid(splat_f32(nb.float32(1)), load_f32x16(logits + 4 * k)))
