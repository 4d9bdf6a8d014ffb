"""The scores of SparseMixer (arXiv 2409.12136), as the models that it trained compute them.

The score of an expert is its share in a softmax over the experts that were not chosen before it. This softmax leaves
out an expert whose logit is below that of the chosen one by more than 0.02 times the larger of two numbers: the logit
of the chosen expert, and the absolute value of its own.
"""

import math

import numba as nb

from kquants.activations.exponential import exp
from kquants.compiler.decorators import inline
from kquants.simd import (
    abs_f32,
    add_f32,
    div_f32,
    larger_f32,
    load_f32,
    load_f32x16,
    load_i32,
    splat_f32,
    store_f32,
    sub_f32,
    sum_f32,
    where_less_f32,
)

_FAR = nb.float32(0.02)
"""Twice `router_jitter_noise` of all published models."""
_MINUS_INFINITY = nb.float32(-math.inf)


@inline
def share(logits: int, n: int, logit: float) -> float:
    """The share of `logit`, the largest of n logits in whole vectors, in the softmax over those that are near it.

    Sums are those of `kquants.experts.scores.softmax`.
    """
    largest, sums, zero = splat_f32(logit), splat_f32(nb.float32(0)), splat_f32(nb.float32(0))
    for k in range(0, n, 16):
        value = load_f32x16(logits + 4 * k)
        distance = div_f32(sub_f32(largest, value), larger_f32(abs_f32(value), largest))
        sums = add_f32(sums, where_less_f32(splat_f32(_FAR), distance, zero, exp(sub_f32(value, largest))))
    return nb.float32(1) / sum_f32(sums)


@inline
def write_shares(logits: int, n: int, used: int, chosen: int, scores: int) -> None:
    """Write the score of each of the `used` chosen experts, best first, whose logits become -inf."""
    for j in range(used):
        expert = load_i32(chosen + 4 * j)
        store_f32(scores + 4 * expert, share(logits, n, load_f32(logits + 4 * expert)))
        store_f32(logits + 4 * expert, _MINUS_INFINITY)
