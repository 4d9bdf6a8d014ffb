"""Arguments of the ops around the products of experts."""

from typing import NamedTuple

from kquants.records.header import Word

SCORES_SOFTMAX, SCORES_SIGMOID, SCORES_SPARSE_MIXER = 0, 1, 2
"""How scores of experts are computed from a router's logits."""


class RouteOp(NamedTuple):
    """Choose `used` experts for each row, best first, and compute their weights.

    Scores are softmax or sigmoid of the logits, or those of SparseMixer (`kquants.experts.sparse_mixer`), which chooses
    by logits and has neither biases nor groups. The key of an expert is its score + `selection_bias`. The experts with
    the largest keys are chosen; of equal keys the one of the lower index comes first.

    With `used_groups` < `groups`, experts 0 … experts / groups - 1 are the first group, and so on. The score of a group
    is the sum of its `group_scores` largest keys, and only experts of the `used_groups` best groups are chosen.

    A weight is the score of the chosen expert, divided by the sum of those of the row (+ 1e-20) with `normalized`,
    times `scale`, times `expert_scales`.

    Who writes the record checks that `groups` divides `experts`, that a group has at least `group_scores` experts, and
    that the used groups have at least `used`: the kernel does not.
    """

    logits: Word
    logits_bytes: Word
    experts: Word
    used: Word
    scoring: Word
    """SCORES_SOFTMAX, SCORES_SIGMOID or SCORES_SPARSE_MIXER."""
    normalized: Word
    selection_bias: Word
    """float32[experts], or null: 0."""
    expert_scales: Word
    """float32[experts], or null: 1."""
    groups: Word
    used_groups: Word
    group_scores: Word
    chosen: Word
    """int32[rows, used], the experts."""
    weights: Word
    """float32[rows, used]."""
    logit_scale: float
    """Logits are multiplied by it first."""
    scale: float


class PlanOp(NamedTuple):
    """Sort the choices of all rows by expert, and then by row: a slot is the place of a choice in that order.

    Choice c = row · used + j is the j-th expert of a row. One unit of work sorts those of all rows of the op.
    """

    chosen: Word
    """int32[rows, used], see RouteOp."""
    experts: Word
    used: Word
    groups: Word
    """A GroupList of the experts that have slots, with room for `experts` groups."""
    choices: Word
    """int32[slots], the choice of each slot."""
    slots: Word
    """int32[rows, used], the slot of each choice."""


class ReadAheadOp(NamedTuple):
    """Have the system read the matrices of all groups from the disk, and do not wait for it. A unit is a group."""

    madvise: Word
    """Address of the system's function madvise(2)."""
    page_bytes: Word
    """Bytes of a page of memory, a power of two."""
    groups: Word
    """A GroupList."""
    w: Word
    """The first matrix of the stack."""
    matrix_bytes: Word


class GatherOp(NamedTuple):
    """Row s of h = the row of x that has slot s, times the weight of its choice unless `weights` is null.

    Written to each of h, q8 and super_q8 that is not null. The op has `used` slots for each row.
    """

    x: Word
    x_bytes: Word
    n: Word
    used: Word
    choices: Word
    """int32[slots], see PlanOp."""
    weights: Word
    """float32[rows, used], or null: 1."""
    h: Word
    h_bytes: Word
    q8: Word
    super_q8: Word


class CombineOp(NamedTuple):
    """x = x + scale · Σ_j weight_j · (row slot_j of y) over the `used` choices j of a row, in their order.

    With `accumulate` 0, x is not read: x = scale · Σ_j ….
    """

    x: Word
    x_bytes: Word
    y: Word
    y_bytes: Word
    n: Word
    used: Word
    slots: Word
    """int32[rows, used], see PlanOp."""
    weights: Word
    """float32[rows, used], or null: 1."""
    accumulate: Word
    scale: float
