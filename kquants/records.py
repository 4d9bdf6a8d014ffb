"""The records that kernels find by address, word by word. Imports no compiler, so that callers need none.

A word is an int64: a number, an address, or of a float the float32 bits. Rows of activations (x, y, h, k, v, …) are
float32, padded with zeros to whole vectors; `x_bytes` are the bytes from a row of x to the next, and so for others.
Quantized rows of them are described in `kquants.activations.quantized` (q8) and `super_quantized` (super_q8).
"""

import struct
from typing import Any, NamedTuple

Word = Any
"""An int64 in a kernel; in a program perhaps what a device makes an address of, or None for null."""

OP_WORDS = 16
"""Words of the record of an op: OpHead, then the arguments of its kernel, then zeros."""


class OpHead(NamedTuple):
    """How the record of an op begins; for its units see `kquants.threadpool.interpreter`."""

    kernel: Word
    units: Word
    units_per_row: Word
    outputs: Word
    """1 where the op works on the rows whose logits are wanted, 0 where on all."""
    meet: Word
    """1 where an op needs what the ops before it wrote, or writes what they read: all threads meet there first."""


FIRST_ARGUMENT = len(OpHead._fields)
"""Word of an op's record where its arguments begin."""


class BatchRecord(NamedTuple):
    """A batch: a row is one token of one sequence."""

    rows: Word
    outputs: Word = 0
    """How many rows' logits are wanted."""
    tokens: Word = 0
    """int32[rows], token ids."""
    tables: Word = 0
    """int64[rows], the address of the int32 page table of the row's sequence."""
    visible: Word = 0
    """int32[rows], how many cells of its sequence the row sees, its own the last."""
    output_rows: Word = 0
    """int32[outputs], the rows whose logits are wanted."""
    rotations: Word = 0
    """float32[:, rope_dim / 2, 2], cosine and sine of each pair's angle at every position."""
    pages: Word = 0
    """int64[], the address of each KV page, by page id."""


class Embed(NamedTuple):
    """Row t of x = the row of the table for the token of row t."""

    table: Word
    row_bytes: Word
    """Of the table."""
    columns: Word
    x: Word
    x_bytes: Word


class Norm(NamedTuple):
    """h = x / sqrt(mean(x²) + eps) · weight, over n values. Written as h, q8 and super_q8, where these are not null."""

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


class NormHeads(NamedTuple):
    """The same for each head of x by itself, in place."""

    x: Word
    x_bytes: Word
    weight: Word
    """float32[head_dim]."""
    head_dim: Word
    heads: Word
    eps: float


class KeepOutputs(NamedTuple):
    """The rows of x whose logits are wanted become its first rows, in their order."""

    x: Word
    x_bytes: Word


class AddBias(NamedTuple):
    """y = y + bias."""

    y: Word
    y_bytes: Word
    bias: Word
    """float32[n]."""
    n: Word


class Quantize(NamedTuple):
    """q8 and super_q8 = x, of n values, quantized; where they are not null."""

    x: Word
    x_bytes: Word
    n: Word
    q8: Word
    super_q8: Word


class SwiGLU(NamedTuple):
    """gate = silu(gate) · up, with silu(z) = z / (1 + exp(-z)).

    If q8 and super_q8 are not both null, the result goes there instead. `row_bytes` are those of gate and of up.
    """

    gate: Word
    up: Word
    row_bytes: Word
    n: Word
    q8: Word
    super_q8: Word


class Product(NamedTuple):
    """y = W x, or with `accumulate` 1 y = y + W x; `rows`, `columns` and `row_bytes` are W's.

    x is float32, or quantized as the format of W wants it: then `x_bytes` mean nothing, as its rows lie in groups.
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
    following: Word = 0
    """The record of the product that comes after this one, from the last on to the first; or null."""


FOLLOWING = FIRST_ARGUMENT + Product._fields.index("following")
"""Word of a product's record that is known once all records have a place."""


class RopeStore(NamedTuple):
    """q and k rotated in place; k and v written to the row's own cell of its page, from `page_offset` on."""

    q: Word
    q_bytes: Word
    k: Word
    v: Word
    kv_bytes: Word
    heads: Word
    kv_heads: Word
    head_dim: Word
    rope_dim: Word
    neox: Word
    """1 where a pair is i and i + rope_dim / 2, 0 where it is 2i and 2i + 1."""
    page_offset: Word


class Attention(NamedTuple):
    """out = softmax(scale · q K) V, with K and V in pages from `page_offset` on.

    q has all rows of the batch, out those of the op.
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
    parts: Word
    """Room for MOST_PARTS partial results of every head."""


class ReadSum(NamedTuple):
    """sums[i] = the sum of all int32 of the i-th piece of memory, without carry."""

    address: Word
    piece_bytes: Word
    """A multiple of 256."""
    sums: Word
    """int32, one for each piece."""


class Int8Peak(NamedTuple):
    """sums[i] = what `rounds` rounds of PEAK_PRODUCTS products of 64 int8 add up to."""

    rounds: Word
    factors: Word
    """64 int8, then 64 for each sum that a thread keeps, those below 16: see `kquants.microbenchmark`."""
    sums: Word
    """int32, one for each unit of work."""


Arguments = (
    Embed
    | Norm
    | NormHeads
    | KeepOutputs
    | AddBias
    | Quantize
    | SwiGLU
    | Product
    | RopeStore
    | Attention
    | ReadSum
    | Int8Peak
)
"""What a kernel is given."""


def are_floats(record: type[Any]) -> list[bool]:
    """Of each field of a record, whether it is a float."""
    return [annotation is float for annotation in record.__annotations__.values()]


def record_of_op(head: OpHead, arguments: Arguments) -> list[int]:
    """The words of an op's record, of addresses and numbers."""
    given = zip(arguments, are_floats(type(arguments)), strict=True)
    words = [*head, *(_float32_bits(word) if is_float else word for word, is_float in given)]
    return words + [0] * (OP_WORDS - len(words))


def _float32_bits(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


assert all(FIRST_ARGUMENT + len(kind._fields) <= OP_WORDS for kind in Arguments.__args__), "a record is too long"
