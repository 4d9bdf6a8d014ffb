"""The description of a model: sizes, RoPE and tensors, layer by layer. Nothing here computes a token."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.arch.tensor_names import Dimension
from edgellm.gguf import Tensor


class RopeType(Enum):
    """The dimensions of a head that RoPE rotates as pair i of n: 2i and 2i + 1 (NORM), or i and i + n (NEOX)."""

    NORM = "norm"
    NEOX = "neox"


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding: pair i of a head is rotated by the angle position · frequencies[i].

    `frequencies` is float64 [pairs] in radians per token, scaling included; 2 · pairs may be less than head_dim.
    `magnitude` multiplies cosine and sine.
    """

    frequencies: NDArray[np.float64]
    magnitude: float
    rope_type: RopeType

    def cos_sin(self, positions: NDArray[Any]) -> NDArray[np.float32]:
        """Cosine and sine of each pair's angle, float32 [n, pairs, 2], at [n] positions."""
        angles = positions[:, None] * self.frequencies
        both = np.empty((*angles.shape, 2), np.float32)
        both[..., 0], both[..., 1] = np.cos(angles) * self.magnitude, np.sin(angles) * self.magnitude
        return both


@dataclass(frozen=True)
class Linear:
    """W x + b: `weight` is (rows, columns) = (outputs, inputs), `bias` float32 (rows) or None."""

    weight: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class Attention:
    """Grouped-query attention. Where `q_norm` and `k_norm` are given, each head of q and k is normed before RoPE."""

    norm: Tensor
    q: Linear
    k: Linear
    v: Linear
    output: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None


@dataclass(frozen=True)
class FeedForward:
    """SwiGLU: down(silu(gate(h)) · up(h))."""

    norm: Tensor
    gate: Linear
    up: Linear
    down: Linear


@dataclass(frozen=True)
class Layer:
    """x += mixer(norm(x)), then x += feed_forward(norm(x))."""

    mixer: Attention
    feed_forward: FeedForward


@dataclass(frozen=True)
class ModelSizes:
    """The sizes that all layers share, and the epsilon of their norms.

    `layer_count` layers have hidden states of `width` values, `heads` query heads, `kv_heads` key and value heads of
    `head_dim` values each, and feed-forwards of `ffn` values. The vocabulary has `vocab` tokens, the context
    `context_length`.
    """

    layer_count: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context_length: int
    eps: float

    @property
    def q_width(self) -> int:
        """Values of all query heads of a token."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Values of all key heads of a token, and of all value heads."""
        return self.kv_heads * self.head_dim

    def shape(self, dimensions: tuple[Dimension, ...]) -> tuple[int, ...]:
        """The shape of a tensor, by the names of its dimensions."""
        return tuple(getattr(self, name) for name in dimensions)


@dataclass(frozen=True)
class Description(ModelSizes):
    """A whole model: its sizes, embedding, layers and output head."""

    rope: Rope
    embedding: Tensor
    layers: tuple[Layer, ...]
    output_norm: Tensor
    output: Tensor


def tensors_in(part: object) -> Iterator[Tensor]:
    """All tensors in a part of a description, in order."""
    if isinstance(part, Tensor):
        yield part
    elif isinstance(part, list | tuple):
        for each in part:
            yield from tensors_in(each)
    elif is_dataclass(part):
        yield from tensors_in([getattr(part, field.name) for field in fields(part)])
