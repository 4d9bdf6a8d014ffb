"""The records that kernels find by address, word by word. Imports nothing, so that callers need no compiler.

A word is an int64: a number, or an address, of which None is null; of a float it holds the float32 bits. `x_bytes` are
bytes from a row of x to the next, and so for other buffers.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

Word = Any
"""An int64, or what an address is made of: the same names serve before a program has addresses."""

OP_WORDS = 16
"""Words of the record of an op: OpHead, then the arguments of its kernel, then zeros."""


class OpHead(NamedTuple):
    """How the record of an op begins; for its units see `kquants.team.interpreter`."""

    kernel: Word
    units: Word
    units_per_row: Word
    rows: Word
    """Which word of the batch tells how many rows the op works on: 0 for all, 1 for those whose logits are wanted."""
    meet: Word
    """1 where an op needs what the ops before it wrote, or writes what they read: all threads meet there first."""


FIRST_ARGUMENT = len(OpHead._fields)
"""Word of an op's record where its arguments begin."""


def record_of_op(head: OpHead, arguments: Iterable[int]) -> list[int]:
    """The words of an op's record."""
    words = [*head, *arguments]
    assert len(words) <= OP_WORDS
    return words + [0] * (OP_WORDS - len(words))


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
    """x = rows of a table."""

    table: Word
    row_bytes: Word
    columns: Word
    x: Word
    x_bytes: Word


class Norm(NamedTuple):
    """h = RMSNorm(x) of n values; quantized to `q` and `super_q`. Each of the three may be null."""

    x: Word
    x_bytes: Word
    weight: Word
    """float32[n]."""
    n: Word
    eps: float
    h: Word
    h_bytes: Word
    q: Word
    super_q: Word


class KeepOutputs(NamedTuple):
    """The rows of x whose logits are wanted become its first."""

    x: Word
    x_bytes: Word


class NormHeads(NamedTuple):
    """x = RMSNorm(x), head by head."""

    x: Word
    x_bytes: Word
    weight: Word
    """float32[head_dim]."""
    head_dim: Word
    heads: Word
    eps: float


class AddBias(NamedTuple):
    """y = y + bias."""

    y: Word
    y_bytes: Word
    bias: Word
    """float32[n]."""
    n: Word


class Quantize(NamedTuple):
    """x of n values, quantized to `q` and `super_q`, where these are not null."""

    x: Word
    x_bytes: Word
    n: Word
    q: Word
    super_q: Word


class SwiGLU(NamedTuple):
    """gate = silu(gate) · up, or that quantized to `q` and `super_q`, where one of these is not null."""

    gate: Word
    up: Word
    row_bytes: Word
    n: Word
    q: Word
    super_q: Word


class Product(NamedTuple):
    """y = W x, or y = y + W x with `accumulate` 1. Quantized x lies in groups, where `x_bytes` mean nothing."""

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


class RopeStore(NamedTuple):
    """q and k rotated in place, k and v written to the row's cell of its page, from `page_offset` on."""

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
    """1 where pairs are the two halves of a head, 0 where they are neighbours."""
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
    sums: Word


class Int8Peak(NamedTuple):
    """`rounds` rounds of PEAK_PRODUCTS products of 64 int8 for each of the sums."""

    rounds: Word
    factors: Word
    sums: Word
