"""Arguments of ops on whole rows: embeddings, sums, biases, quantization, rows whose logits are wanted."""

from typing import NamedTuple

from kquants.records.header import Word


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


class AddScaledOp(NamedTuple):
    """x = scale_x · x + scale_y · y, over n values; y may be null: x = scale_x · x."""

    x: Word
    x_bytes: Word
    y: Word
    y_bytes: Word
    n: Word
    scale_x: float
    scale_y: float


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
