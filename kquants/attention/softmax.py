"""Partial softmaxes: the weights of a span of cells, and how spans are merged.

Scores are to the base 2 (they hold the factor log2 e), so weights are 2**(score - top). A query's partial result:

    [ width values, the sum of weight · value | top, total, … ]      `part_bytes` bytes

with `top` the largest score of its span and `total` the sum of the weights.
"""

import math

import numba as nb

from kquants.activations.exponential import exp2
from kquants.compiler.decorators import Vector, inline
from kquants.simd import (
    add_f32,
    first_f32,
    fma_f32,
    keep_f32,
    larger_f32,
    largest_f32,
    load_f32,
    load_f32x16,
    mul_f32,
    splat_f32,
    store_f32,
    store_f32x16,
    store_f32x16_part,
    sub_f32,
    sum_f32,
)

_MINUS_INFINITY = nb.float32(-math.inf)
_UNSEEN = nb.float32(-1)
"""The weight of a cell that the query does not see. Its value may be anything, NaN for one: times 0 is not enough."""


@inline
def begin(part: int, width: int) -> None:
    """Nothing merged yet: no values, the lowest top, no total."""
    for d in range(0, width, 16):
        store_f32x16(part + 4 * d, splat_f32(nb.float32(0)))
    store_f32(part + 4 * width, _MINUS_INFINITY)
    store_f32(part + 4 * width + 4, nb.float32(0))


@inline
def _largest(p: int, own: int) -> float:
    largest = splat_f32(_MINUS_INFINITY)
    for j in range(0, own - 15, 16):
        largest = larger_f32(load_f32x16(p + 4 * j), largest)
    if own % 16 != 0:
        j = own - own % 16
        largest = larger_f32(keep_f32(load_f32x16(p + 4 * j), own % 16, _MINUS_INFINITY), largest)
    return largest_f32(largest)


@inline
def _weights(p: int, top: float) -> Vector:
    return exp2(sub_f32(load_f32x16(p), splat_f32(top)))


@inline
def find_top(p: int, own: int, state: int) -> None:
    """Write the largest of the scores at p of the `own` cells that a query sees to `state`; NaN is not large."""
    store_f32(state, _largest(p, own))


@inline
def weigh(p: int, own: int, cells: int, state: int) -> None:
    """Turn scores at p into weights, for the `own` cells that a query sees of the `cells` that its tile sees.

    Their total goes to `state`, after the top; a NaN score makes it NaN.
    """
    top, total = load_f32(state), splat_f32(nb.float32(0))
    for j in range(0, own - 15, 16):
        e = _weights(p + 4 * j, top)
        store_f32x16(p + 4 * j, e)
        total = add_f32(total, e)
    if own % 16 != 0:
        j = own - own % 16
        e = _weights(p + 4 * j, top)
        store_f32x16(p + 4 * j, keep_f32(e, own % 16, _UNSEEN))
        total = add_f32(total, keep_f32(e, own % 16, nb.float32(0)))
    for j in range((own + 15) // 16 * 16, cells, 16):
        store_f32x16(p + 4 * j, splat_f32(_UNSEEN))
    store_f32(state + 4, sum_f32(total))


@inline
def merge(merged: int, part: int, width: int) -> None:
    """Add the partial result of a span to that of the spans before it."""
    before, top = load_f32(merged + 4 * width), load_f32(part + 4 * width)
    both = max(before, top)
    old, new = exp2(splat_f32(before - both)), exp2(splat_f32(top - both))
    total, more = load_f32(merged + 4 * width + 4), load_f32(part + 4 * width + 4)
    store_f32(merged + 4 * width, both)
    store_f32(merged + 4 * width + 4, total * first_f32(old) + more * first_f32(new))
    for d in range(0, width, 16):
        kept = mul_f32(load_f32x16(merged + 4 * d), old)
        store_f32x16(merged + 4 * d, fma_f32(load_f32x16(part + 4 * d), new, kept))


@inline
def finish(merged: int, width: int, head_dim: int, out: int) -> None:
    """Divide what was merged by the sum of the weights, and write `head_dim` float32 of it."""
    share = splat_f32(nb.float32(1) / load_f32(merged + 4 * width + 4))
    for d in range(0, head_dim, 16):
        store_f32x16_part(out + 4 * d, mul_f32(load_f32x16(merged + 4 * d), share), head_dim - d)
