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


class SquareSumsOp(NamedTuple):
    """Add the squares of x, n values a row, to sums: those of all rows, or with `groups` of each group to its matrix.

    A unit is 16 columns of the rows of a group. Rows are added in order, so that the sums do not depend on the units
    that a thread takes, and sums that go on from batch to batch not on how the rows are split into batches.
    """

    x: Word
    x_bytes: Word
    n: Word
    groups: Word
    """A GroupList, or null: all rows are of matrix 0."""
    sums: Word
    """float64[matrices, n], n padded to a multiple of 16: `sums_bytes` bytes from the sums of a matrix to the next."""
    sums_bytes: Word
    counts: Word
    """int64[matrices], to which the number of rows is added."""


class QuantizeOp(NamedTuple):
    """Quantize x, n values a row, to each of q8 and super_q8 that is not null."""

    x: Word
    x_bytes: Word
    n: Word
    q8: Word
    super_q8: Word
