"""The records that kernels read from memory: what a batch is, and what each op of a program does.

A word is an int64: a number, an address, or the bits of a float32. Each NamedTuple names the words of a record in their
order. An op's record has OP_WORDS words, and a program is an array of such records:

    word  0      1     2             3       4       5     6            7 ...
          kernel units units_per_row outputs barrier slots units_factor arguments of the kernel (a class below that ends
                                                                        in `Op`), zeros

A batch's record has the words of BatchRecord.

Rows of activations (x, y, h, q, k, v) are float32, padded with zeros to whole vectors of 16; `x_bytes` is the number of
bytes from a row of x to the next, and `y_bytes` and the others likewise. The layout of quantized rows is in
`kquants.activations.quantized` (q8) and `super_quantized` (super_q8). Imports no compiler, so that callers need none.

Cell: the KV slot of one token of a sequence. KV group: the layers whose KV pages are allocated together, since they see
the same cells; each group has page tables and pages of its own.
"""

import struct
from typing import Any, NamedTuple

Word = Any
"""An int64 in a kernel. In a program also a Tensor or Buffer, which a device replaces by its address; None is null."""

OP_WORDS = 32
"""Words of an op's record."""


class OpHeader(NamedTuple):
    """The first words of an op's record; `kquants.threadpool.interpreter` says what a unit of work is."""

    kernel: Word
    """Address of the kernel."""
    units: Word
    units_per_row: Word
    outputs: Word
    """1: the op works on the rows whose logits are wanted; 0: on all rows."""
    barrier: Word
    """1: all threads wait for each other before the op, as it reads what earlier ops write or writes what they read."""
    slots: Word = 1
    """The op works on this many times its rows: as many slots of each row, in buffers that have a row for each slot."""
    units_factor: Word = 0
    """Address of a GroupList: `units` are those of each of its groups of rows. Or null."""


FIRST_ARGUMENT = len(OpHeader._fields)
"""Word of an op's record where its arguments begin."""


class BatchRecord(NamedTuple):
    """A batch of rows; a row is one token of one sequence, and consecutive rows of one sequence are a segment."""

    rows: Word
    outputs: Word = 0
    """Number of rows whose logits are wanted."""
    segments: Word = 0
    """Number of segments."""
    segment_rows: Word = 0
    """int32[segments + 1], the row at which each segment begins, then `rows`."""
    tokens: Word = 0
    """int32[rows], token ids."""
    embeddings: Word = 0
    """int64[rows], address of the float32[width] that row t starts from, or 0 for the embedding of its token. Null: all
    rows start from those of their tokens."""
    positions: Word = 0
    """int32[rows], position of the row in its sequence: the row of the position tables that it uses."""
    cells: Word = 0
    """int32[rows], the cell of its sequence that the row writes."""
    first: Word = 0
    """int32[rows], the first cell of its sequence that the row sees; a layer's window may begin later."""
    visible: Word = 0
    """int32[rows], the end of the cells that the row sees: `first` … `visible` - 1."""
    output_rows: Word = 0
    """int32[outputs], the rows whose logits are wanted."""
    position_tables: Word = 0
    """int64[tables], address of each table of float32 by position: cosines and sines of RoPE, or factors of q."""
    page_tables: Word = 0
    """int64[KV groups, rows], address of the page table (int32 page ids) of the row's sequence. Pages that no row will
    see any more have no id, but -1."""
    pages: Word = 0
    """int64[KV groups], address of the array int64[pages] with the address of each KV page, by page id."""


ROPE_NORM, ROPE_NEOX = 0, 1
"""RoPE types: the values of a head that are rotated as pair i are 2i and 2i + 1, or i and i + rope_dim / 2."""


class EmbedOp(NamedTuple):
    """Row t of x = scale · the table's row for the token of row t, or the batch's own embedding of row t, unscaled."""

    table: Word
    row_bytes: Word
    """Bytes of a row of the table."""
    columns: Word
    x: Word
    x_bytes: Word
    scale: float
    own_embeddings: Word = 1
    """1: the batch's own embeddings count; 0: all rows are those of the table, such as one of per-layer embeddings."""


class NormOp(NamedTuple):
    """h = (x - m) / sqrt(mean((x - m)²) + eps) · weight + bias, over n values.

    m is 0 for RMSNorm, mean(x) for LayerNorm. Weight and bias may be null: 1 and 0. Written to each of h, q8 and
    super_q8 that is not null; h may be x.
    """

    x: Word
    x_bytes: Word
    weight: Word
    """float32[n]."""
    bias: Word
    """float32[n]; RMSNorm has none."""
    n: Word
    eps: float
    h: Word
    h_bytes: Word
    q8: Word
    super_q8: Word


class AddNormOp(NamedTuple):
    """x = x + scale · norm(y), with RMSNorm or LayerNorm as in NormOp: a norm behind a block, and its residual."""

    x: Word
    x_bytes: Word
    y: Word
    y_bytes: Word
    weight: Word
    bias: Word
    n: Word
    eps: float
    scale: float


class AddScaledOp(NamedTuple):
    """x = scale_x · x + scale_y · y, over n values; y may be null: x = scale_x · x."""

    x: Word
    x_bytes: Word
    y: Word
    y_bytes: Word
    n: Word
    scale_x: float
    scale_y: float


class HeadNormOp(NamedTuple):
    """y = the norm of each head of x, as in NormOp; y may be x. One head of all values norms a whole projection."""

    x: Word
    x_bytes: Word
    y: Word
    y_bytes: Word
    weight: Word
    """float32[head_dim], or float32[heads, head_dim] with `weight_stride` head_dim; or null."""
    weight_stride: Word
    """Values from the weights of one head to those of the next: 0 or head_dim."""
    head_dim: Word
    heads: Word
    eps: float


class KeepOutputsOp(NamedTuple):
    """Move the rows of x whose logits are wanted to the front, in their order."""

    x: Word
    x_bytes: Word


class AddBiasOp(NamedTuple):
    """y = y + bias."""

    y: Word
    y_bytes: Word
    bias: Word
    """float32[n]."""
    n: Word


class QuantizeOp(NamedTuple):
    """Quantize x, n values a row, to each of q8 and super_q8 that is not null."""

    x: Word
    x_bytes: Word
    n: Word
    q8: Word
    super_q8: Word


class ActivationOp(NamedTuple):
    """gate = f(gate) · up, or f(gate) where up is null; the kernel's name says which function f is.

    The result goes to gate, or, where q8 or super_q8 is not null, to these instead. The parameters are xIELU's α_p,
    α_n, β and eps, or the limit and alpha of the clamped SwiGLU, in this order: f is min(gate, limit) ·
    sigmoid(alpha · min(gate, limit)), and in place of up stands min(max(up, -limit), limit) + 1.
    """

    gate: Word
    gate_bytes: Word
    up: Word
    up_bytes: Word
    up_offset: Word
    """Bytes from the start of a row of up to its first value."""
    n: Word
    q8: Word
    super_q8: Word
    parameter_0: float
    parameter_1: float
    parameter_2: float
    parameter_3: float


class SigmoidGateOp(NamedTuple):
    """x = x · sigmoid(gate), over n values; for `scale_by_sigmoid` gate has one value for all of them."""

    x: Word
    x_bytes: Word
    gate: Word
    gate_bytes: Word
    n: Word


class SoftplusGateOp(NamedTuple):
    """x = x · softplus(gate), over n values; each value of gate is for `group` values of x, which divides n."""

    x: Word
    x_bytes: Word
    gate: Word
    gate_bytes: Word
    n: Word
    group: Word


class SoftCapOp(NamedTuple):
    """y = cap · tanh(y / cap) over n values, in place."""

    y: Word
    y_bytes: Word
    n: Word
    cap: float


class TopActivationsOp(NamedTuple):
    """x = max(x - m, 0) with m = mean(x) + deviations · std(x), over the n values of a row."""

    x: Word
    x_bytes: Word
    n: Word
    deviations: float


class MatchMagnitudeOp(NamedTuple):
    """to = y · rms(x) / rms(y), where the mean square of y is at least 1e-5; `to` may be y. n values, equal strides."""

    x: Word
    y: Word
    to: Word
    row_bytes: Word
    n: Word


class PredictStreamsOp(NamedTuple):
    """p_j = x_j + Σ_i c_4j+i x_i of the four streams, with c = coefficients · tanh(router_scale · routed).

    x holds stream 0 before and p_0 after, x_1 … x_3 the others; `predicted` becomes p_0, too.
    """

    x: Word
    x_1: Word
    x_2: Word
    x_3: Word
    predicted: Word
    row_bytes: Word
    """Of all these."""
    n: Word
    routed: Word
    """float32[4]."""
    routed_bytes: Word
    coefficients: Word
    """float32[16, 4]."""
    router_scale: float


class CorrectStreamsOp(NamedTuple):
    """x_j = p_j + (1 + c_j) (y - p_0) of the four streams, with c = coefficients · tanh(router_scale · routed).

    x holds y before and x_0 after; p_0 is `predicted`, and p_1 … p_3 become x_1 … x_3. `scaled` becomes scale · x_0.
    """

    x: Word
    x_1: Word
    x_2: Word
    x_3: Word
    predicted: Word
    scaled: Word
    row_bytes: Word
    """Of all these."""
    n: Word
    routed: Word
    """float32[4]."""
    routed_bytes: Word
    coefficients: Word
    """float32[4, 4]."""
    scale: Word
    """float32[n]."""
    router_scale: float


class MatmulOp(NamedTuple):
    """y = W x, or y = y + W x with `accumulate` 1; `rows`, `columns` and `row_bytes` are those of W.

    x is float32, or quantized as W's format requires. The rows of quantized x are interleaved in groups, so that
    `x_bytes` is not used.
    """

    w: Word
    rows: Word
    columns: Word
    row_bytes: Word
    x: Word
    x_bytes: Word
    y: Word
    y_bytes: Word
    accumulate: Word
    next_matmul: Word = 0
    """Address of the next MatmulOp record, whose weights are prefetched; the last one's next is the first. Or null."""
    groups: Word = 0
    """Address of a GroupList: rows of x and y belong to matrices of a stack, of which W is the first. Null: to W."""
    matrix_bytes: Word = 0
    """Bytes from a matrix of the stack to the next."""
    bias: Word = 0
    """float32, added to y: `rows` values for each matrix of the stack, see `bias_bytes`. Null: none."""
    bias_bytes: Word = 0
    """Bytes from the bias of a matrix of the stack to that of the next."""


NEXT_MATMUL = FIRST_ARGUMENT + MatmulOp._fields.index("next_matmul")
"""Word of a MatmulOp's record that is filled in when all records have addresses."""


class GroupList(NamedTuple):
    """What a grouped matmul multiplies: `count` groups of consecutive rows of x, each by one matrix of a stack.

    Behind it in memory follow `count` + 1 records MatmulGroup, in order of their rows; the last one has the end of the
    rows alone. A unit of a grouped matmul is a tile of the matrix of a group: unit u is tile u mod tiles of group
    u div tiles.
    """

    count: Word


class MatmulGroup(NamedTuple):
    """Rows of x and y from `first_row` to that of the next group belong to matrix `matrix` of a stack."""

    matrix: Word
    first_row: Word


def group_list_bytes(groups: int) -> int:
    """Bytes of a GroupList with room for `groups` groups."""
    return 8 * (len(GroupList._fields) + (groups + 1) * len(MatmulGroup._fields))


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
    """Address of the system's function."""
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


class RopeStoreOp(NamedTuple):
    """Rotate q and k in place (RoPE), and write k and v to the row's own cell, `page_offset` bytes into its page.

    With k null, only q is rotated: the layer reads the keys and values of another. Then q may be of the rows whose
    logits are wanted. With v null, only k is written: the values are a part of the keys. With `heads` 0 there is no q.
    """

    q: Word
    q_bytes: Word
    k: Word
    k_bytes: Word
    v: Word
    v_bytes: Word
    heads: Word
    kv_heads: Word
    key_dim: Word
    """Values of a head of q and of k."""
    value_dim: Word
    """Values of a head of v."""
    rope_dim: Word
    """The values of each head of q and k that are rotated, from value `rope_first` on; 0: no RoPE."""
    rope_type: Word
    """ROPE_NORM or ROPE_NEOX."""
    rope_table: Word
    """Number of the position table: float32[positions, rope_dim / 2, 2], cosine and sine of each pair's angle."""
    q_factor_table: Word
    """Number of the position table float32[positions] whose factor multiplies q; -1: none."""
    kv_group: Word
    page_offset: Word
    rope_first: Word = 0


class SplitHeadsOp(NamedTuple):
    """Heads of latent attention to slots: slot h · rows + t is of head h of row t. A row has `heads` slots.

    A head of q is [plain values | values of RoPE]. The former are written to each of plain, q8 and super_q8 that is not
    null, the latter, rotated, to the end of the slot of `queries`.
    """

    q: Word
    q_bytes: Word
    heads: Word
    plain_dim: Word
    rope_dim: Word
    rope_type: Word
    rope_table: Word
    plain: Word
    plain_bytes: Word
    q8: Word
    super_q8: Word
    queries: Word
    queries_bytes: Word
    rope_first: Word
    """Values of a slot of `queries` before those of RoPE."""


class HeadGroupsOp(NamedTuple):
    """Write the GroupList of slots in order of heads: matrix h has the slots h · rows … (h + 1) · rows - 1."""

    groups: Word
    heads: Word


class JoinHeadsOp(NamedTuple):
    """Row t of h = the values of the slots h · rows + t of all heads, side by side. The inverse of SplitHeadsOp.

    Written to each of h, q8 and super_q8 that is not null.
    """

    x: Word
    x_bytes: Word
    heads: Word
    head_dim: Word
    h: Word
    h_bytes: Word
    q8: Word
    super_q8: Word


class AttentionOp(NamedTuple):
    """out = softmax(s) V with s = scale · q K, or cap · tanh(scale · q K / cap), with K and V `page_offset` bytes into
    their pages.

    q has all rows of the batch, or, with `q_outputs`, the rows that the op works on, which out has.
    """

    q: Word
    q_bytes: Word
    out: Word
    out_bytes: Word
    heads: Word
    kv_heads: Word
    key_dim: Word
    value_dim: Word
    kv_group: Word
    page_offset: Word
    window: Word
    """A row sees no cell before its `visible` - `window`; 0: no window."""
    chunked: Word
    """1: a row sees no cell of another chunk of `window` cells than that of its last one; 0: see `window`."""
    scale: float
    soft_cap: float
    """0: none."""
    sinks: Word
    """float32[heads], one more score of each head, whose value is 0; or null."""
    partials: Word
    """Room for partial results of every head, see `kquants.attention.work_list`."""
    max_partials: Word
    """Partial results of each head that there is room for."""
    q_outputs: Word = 0
    has_slots: Word = 0
    """1: q and out have a row for each head of a row, slot h · rows + t as in SplitHeadsOp, with the rows of each."""


class ReadSumOp(NamedTuple):
    """sums[i] = the sum of all int32 in section i of the memory, without carry."""

    address: Word
    section_bytes: Word
    """A multiple of 256."""
    sums: Word
    """int32, one for each section."""


class Int8PeakOp(NamedTuple):
    """sums[i] = the sum over `rounds` rounds of PEAK_PRODUCTS products of 64 int8."""

    rounds: Word
    factors: Word
    """64 int8, then 64 int8 below 16 for each sum that a thread keeps: see `kquants.microbenchmark`."""
    sums: Word
    """int32, one for each unit of work."""


Arguments = (
    EmbedOp
    | NormOp
    | AddNormOp
    | AddScaledOp
    | HeadNormOp
    | KeepOutputsOp
    | AddBiasOp
    | QuantizeOp
    | ActivationOp
    | SigmoidGateOp
    | SoftplusGateOp
    | SoftCapOp
    | TopActivationsOp
    | MatchMagnitudeOp
    | PredictStreamsOp
    | CorrectStreamsOp
    | MatmulOp
    | RouteOp
    | PlanOp
    | ReadAheadOp
    | GatherOp
    | CombineOp
    | RopeStoreOp
    | SplitHeadsOp
    | HeadGroupsOp
    | JoinHeadsOp
    | AttentionOp
    | ReadSumOp
    | Int8PeakOp
)
"""The arguments of a kernel."""


def are_floats(record: type[Any]) -> list[bool]:
    """For each field of a record whether it is a float."""
    return [annotation is float for annotation in record.__annotations__.values()]


def record_of_op(header: OpHeader, arguments: Arguments) -> list[int]:
    """The words of an op's record; all arguments are numbers by now."""
    fields = zip(arguments, are_floats(type(arguments)), strict=True)
    words = [*header, *(_float32_bits(word) if is_float else word for word, is_float in fields)]
    return words + [0] * (OP_WORDS - len(words))


def _float32_bits(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


assert all(FIRST_ARGUMENT + len(kind._fields) <= OP_WORDS for kind in Arguments.__args__), "a record is too long"
