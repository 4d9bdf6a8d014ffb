"""Arguments of RoPE with its stores to the KV pages, and of attention."""

from typing import NamedTuple

from kquants.records.header import Word

ROPE_NORM, ROPE_NEOX = 0, 1
"""RoPE types: the values of a head that are rotated as pair i are 2i and 2i + 1, or i and i + rope_dim / 2."""


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
