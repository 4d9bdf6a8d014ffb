"""The records that kernels read from memory: what a batch is, and what each op of a program does.

A word is an int64: a number, an address, or the bits of a float32. Each NamedTuple names the words of a record in their
order. An op's record has OP_WORDS words, and a program is an array of such records:

    word  0      1     2             3       4       5 ...
          kernel units units_per_row outputs barrier arguments of the kernel (a class below that ends in `Op`), zeros

A batch's record has the words of BatchRecord:

    word  0    1       2      3           4       5           6         7
          rows outputs tokens page_tables visible output_rows cos_sin   pages

Rows of activations (x, y, h, q, k, v) are float32, padded with zeros to whole vectors of 16; `x_bytes` is the number of
bytes from a row of x to the next, and `y_bytes` and the others likewise. The layout of quantized rows is in
`kquants.activations.quantized` (q8) and `super_quantized` (super_q8). Imports no compiler, so that callers need none.

Cell: the KV slot of one token; visible: the row's causal length, in cells.
"""

import struct
from typing import Any, NamedTuple

Word = Any
"""An int64 in a kernel. In a program also a Tensor or Buffer, which a device replaces by its address; None is null."""

OP_WORDS = 16
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


FIRST_ARGUMENT = len(OpHeader._fields)
"""Word of an op's record where its arguments begin."""


class BatchRecord(NamedTuple):
    """A batch of rows; a row is one token of one sequence."""

    rows: Word
    outputs: Word = 0
    """Number of rows whose logits are wanted."""
    tokens: Word = 0
    """int32[rows], token ids."""
    page_tables: Word = 0
    """int64[rows], address of the page table (int32 page ids) of the row's sequence."""
    visible: Word = 0
    """int32[rows], number of cells of its sequence that the row attends to; the last one is its own."""
    output_rows: Word = 0
    """int32[outputs], the rows whose logits are wanted."""
    cos_sin: Word = 0
    """float32[positions, rope_dim / 2, 2], cosine and sine of each pair's angle: the RoPE table."""
    pages: Word = 0
    """int64[pages], address of each KV page, by page id."""


ROPE_NORM, ROPE_NEOX = 0, 1
"""RoPE types: the values of a head that are rotated as pair i are 2i and 2i + 1, or i and i + rope_dim / 2."""


class EmbedOp(NamedTuple):
    """Row t of x = the table's row for the token of row t."""

    table: Word
    row_bytes: Word
    """Bytes of a row of the table."""
    columns: Word
    x: Word
    x_bytes: Word


class RmsNormOp(NamedTuple):
    """h = x / sqrt(mean(x²) + eps) · weight, over n values; written to each of h, q8 and super_q8 that is not null."""

    x: Word
    x_bytes: Word
    weight: Word
    """float32[n]."""
    n: Word
    eps: float
    h: Word
    h_bytes: Word
    q8: Word
    super_q8: Word


class HeadNormOp(NamedTuple):
    """RMSNorm of each head of x, in place."""

    x: Word
    x_bytes: Word
    weight: Word
    """float32[head_dim]."""
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


class SwiGLUOp(NamedTuple):
    """gate = silu(gate) · up, with silu(z) = z / (1 + exp(-z)).

    The result goes to gate, or, where q8 or super_q8 is not null, to these instead. Rows of gate and of up are
    `row_bytes` apart.
    """

    gate: Word
    up: Word
    row_bytes: Word
    n: Word
    q8: Word
    super_q8: Word


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


NEXT_MATMUL = FIRST_ARGUMENT + MatmulOp._fields.index("next_matmul")
"""Word of a MatmulOp's record that is filled in when all records have addresses."""


class RopeStoreOp(NamedTuple):
    """Rotate q and k in place (RoPE), and write k and v to the row's own cell, `page_offset` bytes into its page."""

    q: Word
    q_bytes: Word
    k: Word
    v: Word
    kv_bytes: Word
    heads: Word
    kv_heads: Word
    head_dim: Word
    rope_dim: Word
    rope_type: Word
    """ROPE_NORM or ROPE_NEOX."""
    page_offset: Word


class AttentionOp(NamedTuple):
    """out = softmax(scale · q K) V, with K and V `page_offset` bytes into their pages.

    q has all rows of the batch, out the rows that the op works on.
    """

    q: Word
    q_bytes: Word
    out: Word
    out_bytes: Word
    heads: Word
    kv_heads: Word
    head_dim: Word
    page_offset: Word
    scale: float
    partials: Word
    """Room for MAX_PARTIALS partial results of every head, see `kquants.attention.attention`."""


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
    | RmsNormOp
    | HeadNormOp
    | KeepOutputsOp
    | AddBiasOp
    | QuantizeOp
    | SwiGLUOp
    | MatmulOp
    | RopeStoreOp
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
