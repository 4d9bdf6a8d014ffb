"""What an architecture says about a model: shapes and tensors, layer by layer. Nothing here computes."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.gguf import Tensor


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding: pair i of a head turns by position · frequencies[i].

    `frequencies` is float64 [pairs] in radians per token, scaling included; 2 · pairs may be less than head_dim.
    `halves` pairs dimension i with i + pairs (NeoX), otherwise neighbours 2i and 2i + 1. `magnitude` multiplies
    cosine and sine.
    """

    frequencies: NDArray[np.float64]
    magnitude: float
    halves: bool

    def cos_sin(self, positions: NDArray[Any]) -> NDArray[np.float32]:
        """Cosine and sine of each pair's angle: [n] positions to float32 [n, pairs, 2]."""
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
    """Grouped-query attention. Each head of q and k is normed before it is rotated where there are weights for it."""

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
    """The sizes that all layers share, and the epsilon of their norms."""

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context_length: int
    eps: float


@dataclass(frozen=True)
class Description(ModelSizes):
    """A whole model: embedding, layers, output head, and the sizes they share."""

    rope: Rope
    embedding: Tensor
    layers: tuple[Layer, ...]
    output_norm: Tensor
    output: Tensor


def tensors_in(part: object) -> Iterator[Tensor]:
    """All tensors in a part of a description."""
    if isinstance(part, Tensor):
        yield part
    elif isinstance(part, list | tuple):
        for each in part:
            yield from tensors_in(each)
    elif is_dataclass(part):
        yield from tensors_in([getattr(part, field.name) for field in fields(part)])
