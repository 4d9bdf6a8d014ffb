"""The attention kernels, run by themselves on batches of rows, and softmax attention in float64 as their oracle."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kquants.kv_layout import (
    ATTENTION_UNITS,
    ATTENTION_UNITS_PER_ROW,
    MERGE_UNITS,
    max_partials,
    padded_head_dim,
    partial_bytes,
)
from kquants.records import AttentionOp
from support.kernels import Array, fenced, guarded, op_record, run_op, same_bits
from support.kv_pages import EXTRA, F32, TYPES, Pages, Rows, Shape, quantized

TOLERANCE = 3e-6
"""Scores between 8 and 16, to the base 2, are off by 5e-7, and powers of two by 2e-7; values are up to 4."""


@dataclass(frozen=True)
class AttentionOptions:
    """Options of an attention op; what is 0 or None is not used."""

    scale: float = 0.25
    window: int = 0
    chunked: bool = False
    soft_cap: float = 0.0
    sinks: Array | None = None

    def first_seen(self, first: int, visible: int) -> int:
        """The first cell that a row sees."""
        if self.chunked:
            return max(first, (visible - 1) // self.window * self.window)
        return max(first, visible - self.window) if self.window else first


class AttentionRun:
    """The ops of attention over a batch, and what they write: `out` [row, value] and partial results `parts`.

    With `outputs`, they work on the rows whose logits are wanted.
    """

    def __init__(
        self,
        shape: Shape,
        rows: Rows,
        q: Array,
        options: AttentionOptions,
        outputs: int | None = None,
        room: int | None = None,
    ) -> None:
        self.shape, self.rows, self.n = shape, rows, len(q) if outputs is None else outputs
        self.queries = np.hstack([q.reshape(len(q), -1), np.full((len(q), EXTRA), np.nan, F32)])
        self.width = shape.heads * shape.value_dim
        self.out = guarded((self.n, self.width + EXTRA), F32)
        room = max_partials(0) if room is None else room
        size = partial_bytes(padded_head_dim(shape.value_dim))
        self.parts = fenced(guarded((room, shape.heads, size), np.uint8))
        self.sinks = options.sinks
        arguments = AttentionOp(
            q=self.queries,
            q_bytes=self.queries[0].nbytes,
            out=self.out,
            out_bytes=self.out[0].nbytes,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            key_dim=shape.key_dim,
            value_dim=shape.value_dim,
            kv_group=1,
            page_offset=shape.layer_bytes,
            window=options.window,
            chunked=options.chunked,
            scale=options.scale,
            soft_cap=options.soft_cap,
            sinks=0 if self.sinks is None else self.sinks,
            partials=self.parts,
            max_partials=room,
        )
        wanted, per_row = outputs is not None, ATTENTION_UNITS_PER_ROW
        self.attention = op_record(f"attention_{shape.kv}", arguments, ATTENTION_UNITS, per_row, wanted)
        self.merge = op_record("attention_merge", arguments, MERGE_UNITS, outputs=wanted)
        self.units = ATTENTION_UNITS + per_row * self.n

    def run(self, threads: int = 2, chunk: int = 1) -> Array:
        """The result [row, head, value_dim] of a kernel that is told `threads` threads; nothing else may be written."""
        run_op(self.attention, self.rows.record, self.units, self.shape.scratch, chunk, threads)
        run_op(self.merge, self.rows.record, MERGE_UNITS, self.shape.scratch, chunk, threads)
        assert same_bits(self.out[:, self.width :].copy(), guarded((self.n, EXTRA), F32)), "wrote past the row"
        result: Array = self.out[:, : self.width].reshape(self.n, self.shape.heads, -1).copy()
        return result


def softmax_attention(
    shape: Shape, q: Array, keys: Array, values: Array, scale: float, options: AttentionOptions | None = None
) -> NDArray[np.float64]:
    """Attention in float64 for one row: q [head, key_dim], keys and values of what it sees [cells, kv head, size]."""
    group = shape.heads // shape.kv_heads
    k, v = (np.repeat(x.astype(np.float64), group, axis=1) for x in (keys, values))
    scores = np.einsum("hd,chd->hc", q.astype(np.float64), k) * scale
    if options and options.soft_cap:
        scores = options.soft_cap * np.tanh(scores / options.soft_cap)
    if options and options.sinks is not None:
        scores = np.hstack([scores, options.sinks.astype(np.float64)[:, None]])
        v = np.concatenate([v, np.zeros((1, *v.shape[1:]))])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: NDArray[np.float64] = np.einsum("hc,chd->hd", weights / weights.sum(axis=1, keepdims=True), v)
    return result


def some_cells(rng: np.random.Generator, shape: Shape, cells: int) -> tuple[Array, Array]:
    """Keys and values that the page type holds exactly, [cells, kv head, size of a head]."""
    k, v = (rng.standard_normal((cells, shape.kv_heads, n)) for n in (shape.key_dim, shape.value_dim))
    if shape.kv != "q8_0":
        return k.astype(TYPES[shape.kv]), v.astype(TYPES[shape.kv])
    for x in (k, v):
        x[...] = np.clip(np.rint(40 * x), -127, 127)
        x[..., ::32] = 127
        scales = rng.integers(1, 9, (*x.shape[:2], -(-x.shape[2] // 32))) / 256
        x *= np.repeat(scales, 32, axis=-1)[..., : x.shape[2]]
    return k.astype(F32), v.astype(F32)


def seen_by(shape: Shape, q: Array, scale: float) -> Array:
    """Queries as kernels take them: for q8_0 pages they are quantized, times the scale and log2 e."""
    if shape.kv != "q8_0":
        return q
    factor = F32(F32(scale) * F32(np.log2(np.e)))
    ints, scales = quantized(q * factor, padded_head_dim(shape.key_dim))
    exact = ints.astype(np.float64) * np.repeat(scales, 32, axis=-1)[..., : ints.shape[-1]]
    result: Array = exact[..., : shape.key_dim] / (np.log2(np.e) * float(F32(scale)))
    return result


def attend(
    shape: Shape,
    pages: Pages,
    tables: list[list[int]],
    visible: list[int],
    q: Array,
    scale: float,
    wanted: list[int] | None = None,
    threads: int = 2,
) -> Array:
    """The kernels' result for queries [row, head, key_dim], for the rows `wanted`, or all."""
    rows, outputs = Rows(pages, tables, visible, outputs=wanted), None if wanted is None else len(wanted)
    return AttentionRun(shape, rows, q, AttentionOptions(scale), outputs).run(threads)
