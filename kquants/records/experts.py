"""Arguments of the ops around the products of experts."""

from typing import NamedTuple

from kquants.records.header import Word

SCORES_SOFTMAX, SCORES_SIGMOID, SCORES_SPARSE_MIXER = 0, 1, 2
"""How scores of experts are computed from a router's logits."""


class RouteOp(NamedTuple):
    """For each row the `used` experts of the largest scores, best first, and their weights. Ties go by index.

    Scores are softmax or sigmoid of the logits, or those of SparseMixer (`kquants.experts.sparse_mixer`), which chooses
    by logits and has neither biases nor groups. The choice is by score + `selection_bias`, among the experts of the
    `used_groups` of `groups` equal groups of experts whose `group_scores` largest biased scores have the largest sum.
    Weights are the scores of the chosen, divided by their sum with `normalized`, times `scale`, times `expert_scales`.
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

    Choice c = row · used + j is the j-th expert of a row. One unit of work; the op's rows are those of the batch.
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
    """Start to read the matrices of all groups from the disk; see `kquants.experts.read_ahead`."""

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
