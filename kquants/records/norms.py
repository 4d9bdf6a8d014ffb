"""Arguments of norms, of rows and of heads."""

from typing import NamedTuple

from kquants.records.header import Word


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
