"""Partial softmax: the weights of a KV block's cells, and how partial results are merged.

Scores are to the base 2 (they hold the factor log2 e), so a weight is 2**(score - largest). The partial result of a
query over some cells has `partial_bytes` bytes of float32:

    [ sum of weight · value, `width` values | largest score, sum of the weights, unused … ]
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
"""The weight of a cell that the query does not see. A weight of 0 would not do: the cell's value may be NaN."""


@inline
def clear(partial: int, width: int) -> None:
    """The partial result of no cells."""
    for d in range(0, width, 16):
        store_f32x16(partial + 4 * d, splat_f32(nb.float32(0)))
    store_f32(partial + 4 * width, _MINUS_INFINITY)
    store_f32(partial + 4 * width + 4, nb.float32(0))


@inline
def _largest(p: int, seen: int) -> float:
    largest = splat_f32(_MINUS_INFINITY)
    for j in range(0, seen - 15, 16):
        largest = larger_f32(load_f32x16(p + 4 * j), largest)
    if seen % 16 != 0:
        j = seen - seen % 16
        largest = larger_f32(keep_f32(load_f32x16(p + 4 * j), seen % 16, _MINUS_INFINITY), largest)
    return largest_f32(largest)


@inline
def _weights(p: int, largest: float) -> Vector:
    return exp2(sub_f32(load_f32x16(p), splat_f32(largest)))


@inline
def find_largest(p: int, seen: int, state: int) -> None:
    """Write the largest of the first `seen` scores at p to `state`, ignoring NaN."""
    store_f32(state, _largest(p, seen))


@inline
def to_weights(p: int, seen: int, cells: int, state: int) -> None:
    """Turn the scores at p into weights: of `cells` cells that the tile sees, the query sees the first `seen`.

    The sum of the weights goes to `state`, after the largest score; a NaN score makes it NaN.
    """
    largest, total = load_f32(state), splat_f32(nb.float32(0))
    for j in range(0, seen - 15, 16):
        e = _weights(p + 4 * j, largest)
        store_f32x16(p + 4 * j, e)
        total = add_f32(total, e)
    if seen % 16 != 0:
        j = seen - seen % 16
        e = _weights(p + 4 * j, largest)
        store_f32x16(p + 4 * j, keep_f32(e, seen % 16, _UNSEEN))
        total = add_f32(total, keep_f32(e, seen % 16, nb.float32(0)))
    for j in range((seen + 15) // 16 * 16, cells, 16):
        store_f32x16(p + 4 * j, splat_f32(_UNSEEN))
    store_f32(state + 4, sum_f32(total))


@inline
def merge(merged: int, partial: int, width: int) -> None:
    """Merge a partial result into that of the KV blocks before it."""
    before, largest = load_f32(merged + 4 * width), load_f32(partial + 4 * width)
    both = max(before, largest)
    old, new = exp2(splat_f32(before - both)), exp2(splat_f32(largest - both))
    total, more = load_f32(merged + 4 * width + 4), load_f32(partial + 4 * width + 4)
    store_f32(merged + 4 * width, both)
    store_f32(merged + 4 * width + 4, total * first_f32(old) + more * first_f32(new))
    for d in range(0, width, 16):
        rescaled = mul_f32(load_f32x16(merged + 4 * d), old)
        store_f32x16(merged + 4 * d, fma_f32(load_f32x16(partial + 4 * d), new, rescaled))


@inline
def normalize(merged: int, width: int, head_dim: int, out: int) -> None:
    """Divide the merged values by the sum of the weights, and write `head_dim` float32 of them to `out`."""
    inverse = splat_f32(nb.float32(1) / load_f32(merged + 4 * width + 4))
    for d in range(0, head_dim, 16):
        store_f32x16_part(out + 4 * d, mul_f32(load_f32x16(merged + 4 * d), inverse), head_dim - d)
