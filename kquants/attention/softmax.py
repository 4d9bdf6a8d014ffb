"""Partial softmax: the weights of a KV block's cells, and how partial results are merged.

Scores are to the base 2 (they hold the factor log2 e), so a weight is 2**(score - largest). The partial result of a
query over some cells has `partial_bytes` bytes of float32:

    [ sum of weight · value, `width` values | largest score, sum of the weights, unused … ]
"""

import math
from typing import Any

import numba as nb
from llvmlite import ir
from numba import types

from kquants.activations.exponential import exp2, tanh
from kquants.compiler.decorators import Vector, inline
from kquants.simd import (
    F32,
    add_f32,
    define,
    first_f32,
    fma_f32,
    keep_f32,
    lanes_below,
    larger_f32,
    largest_f32,
    load_f32,
    load_f32x16,
    mul_f32,
    splat,
    splat_f32,
    store_f32,
    store_f32x16,
    store_f32x16_part,
    sub_f32,
    sum_f32,
)

LOG2_E = nb.float32(math.log2(math.e))
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


@define(F32, F32, types.int64, types.int64, types.float32)
def _between(b: ir.IRBuilder, x: Any, low: Any, high: Any, other: Any) -> Any:
    """`x` in lanes low … high - 1, `other` in the others."""
    inside = b.and_(b.not_(lanes_below(b, low)), lanes_below(b, high))
    return b.select(inside, x, splat(b, other))


@inline
def _whole_from(low: int) -> int:
    """The first whole vector at or behind a cell."""
    return (low + 15) & ~15


@inline
def _has_part_before(low: int) -> bool:
    return low % 16 != 0


@inline
def _has_part_behind(low: int, high: int) -> bool:
    """Whether cells low … high - 1 end with a part of a vector that does not begin before `low`."""
    return high % 16 != 0 and high - high % 16 >= low


@inline
def _largest(p: int, low: int, high: int) -> float:
    largest = splat_f32(_MINUS_INFINITY)
    if _has_part_before(low):
        j = low - low % 16
        largest = larger_f32(_between(load_f32x16(p + 4 * j), low - j, high - j, _MINUS_INFINITY), largest)
    for j in range(_whole_from(low), high - 15, 16):
        largest = larger_f32(load_f32x16(p + 4 * j), largest)
    if _has_part_behind(low, high):
        j = high - high % 16
        largest = larger_f32(keep_f32(load_f32x16(p + 4 * j), high % 16, _MINUS_INFINITY), largest)
    return largest_f32(largest)


@inline
def _weights(p: int, largest: float) -> Vector:
    return exp2(sub_f32(load_f32x16(p), splat_f32(largest)))


@inline
def find_largest(p: int, low: int, high: int, state: int) -> None:
    """Write the largest of the scores low … high - 1 at p to `state`, ignoring NaN."""
    store_f32(state, _largest(p, low, high))


@inline
def cap_scores(p: int, low: int, high: int, cap: float) -> None:
    """Turn the scores low … high - 1 at p, and the rest of their vectors, into cap · tanh(score / cap)."""
    largest = splat_f32(cap * LOG2_E)
    inverse = splat_f32(nb.float32(1) / (cap * LOG2_E))
    for j in range(low & ~15, high, 16):
        store_f32x16(p + 4 * j, mul_f32(tanh(mul_f32(load_f32x16(p + 4 * j), inverse)), largest))


@inline
def to_weights(p: int, low: int, high: int, state: int) -> None:
    """Turn the scores low … high - 1 at p into weights; the rest of their vectors becomes unseen.

    The sum of the weights goes to `state`, after the largest score; a NaN score makes it NaN.
    """
    largest, total = load_f32(state), splat_f32(nb.float32(0))
    if _has_part_before(low):
        j = low - low % 16
        e = _weights(p + 4 * j, largest)
        store_f32x16(p + 4 * j, _between(e, low - j, high - j, _UNSEEN))
        total = add_f32(total, _between(e, low - j, high - j, nb.float32(0)))
    for j in range(_whole_from(low), high - 15, 16):
        e = _weights(p + 4 * j, largest)
        store_f32x16(p + 4 * j, e)
        total = add_f32(total, e)
    if _has_part_behind(low, high):
        j = high - high % 16
        e = _weights(p + 4 * j, largest)
        store_f32x16(p + 4 * j, keep_f32(e, high % 16, _UNSEEN))
        total = add_f32(total, keep_f32(e, high % 16, nb.float32(0)))
    store_f32(state + 4, sum_f32(total))


@inline
def hide(p: int, low: int, high: int) -> None:
    """Make whole vectors of the weights at p unseen, from the one with cell `low` to the one with `high` - 1."""
    for j in range(low - low % 16, high, 16):
        store_f32x16(p + 4 * j, splat_f32(_UNSEEN))


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
def merge_sink(merged: int, width: int, sink: float) -> None:
    """Merge a score, to the base e, whose value is 0."""
    score = sink * LOG2_E
    before = load_f32(merged + 4 * width)
    both = max(before, score)
    old, new = exp2(splat_f32(before - both)), exp2(splat_f32(score - both))
    store_f32(merged + 4 * width, both)
    store_f32(merged + 4 * width + 4, load_f32(merged + 4 * width + 4) * first_f32(old) + first_f32(new))
    for d in range(0, width, 16):
        store_f32x16(merged + 4 * d, mul_f32(load_f32x16(merged + 4 * d), old))


@inline
def normalize(merged: int, width: int, value_dim: int, out: int) -> None:
    """Divide the merged values by the sum of the weights, and write `value_dim` float32 of them to `out`."""
    inverse = splat_f32(nb.float32(1) / load_f32(merged + 4 * width + 4))
    for d in range(0, value_dim, 16):
        store_f32x16_part(out + 4 * d, mul_f32(load_f32x16(merged + 4 * d), inverse), value_dim - d)
