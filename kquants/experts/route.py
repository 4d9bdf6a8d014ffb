"""The router: the experts of each row, and their weights."""

import numba as nb

from kquants.compiler.decorators import inline, kernel
from kquants.experts.scores import scale_logits, sigmoid, softmax
from kquants.experts.selection import choose, keep_groups, write_keys
from kquants.experts.sparse_mixer import write_shares
from kquants.records import SCORES_SIGMOID, SCORES_SOFTMAX, SCORES_SPARSE_MIXER, RouteOp
from kquants.simd import load_f32, load_i32, store_f32
from kquants.threadpool.interpreter import arguments_of

_route_of = arguments_of(RouteOp)

_LEAST_SUM = nb.float32(1e-20)
"""Added to the sum that weights are divided by, as in the models' own code: sigmoids may all round to 0."""


@inline
def _weigh(given: RouteOp, scores: int, chosen: int, weights: int) -> None:
    """Write the weights of a row's experts. Their scores are added in the order of the choices."""
    total = nb.float32(0)
    for j in range(given.used):
        total += load_f32(scores + 4 * load_i32(chosen + 4 * j))
    divisor = total + _LEAST_SUM if given.normalized else nb.float32(1)
    for j in range(given.used):
        expert = load_i32(chosen + 4 * j)
        weight = load_f32(scores + 4 * expert) / divisor * given.scale
        if given.expert_scales != 0:
            weight *= load_f32(given.expert_scales + 4 * expert)
        store_f32(weights + 4 * j, weight)


@kernel("route")
def route(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: RouteOp; a row a unit. Scratch: `kquants.layout.route_scratch`.

    Without biases and groups the choice is by logits. Scores have the same order, but distinct logits may have equal
    scores in float32.
    """
    given = _route_of(op)
    n, used = given.experts, given.used
    vector_bytes = (n + 15) // 16 * 64
    scores, keys, rest = scratch + vector_bytes, scratch + 2 * vector_bytes, scratch + 3 * vector_bytes
    for t in range(first, last):
        chosen = given.chosen + 4 * used * t
        scale_logits(given.logits + t * given.logits_bytes, n, given.logit_scale, scratch)
        if given.scoring == SCORES_SOFTMAX:
            softmax(scratch, n, scores)
        elif given.scoring == SCORES_SIGMOID:
            sigmoid(scratch, n, scores)
        by_logits = given.selection_bias == 0 and given.used_groups == given.groups
        write_keys(scratch if by_logits else scores, given.selection_bias, n, keys)
        if given.used_groups < given.groups:
            keep_groups(keys, n, given.groups, given.used_groups, given.group_scores, rest)
        choose(keys, 0, n, used, chosen)
        if given.scoring == SCORES_SPARSE_MIXER:
            write_shares(scratch, n, used, chosen, scores)
        _weigh(given, scores, chosen, given.weights + 4 * used * t)
