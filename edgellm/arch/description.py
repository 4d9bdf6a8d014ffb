"""The description of a model: sizes, positions and tensors, layer by layer. Nothing here computes a token."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgellm.gguf import Tensor

P = TypeVar("P")


class RopeType(Enum):
    """The dimensions of a head that RoPE rotates as pair i of n: 2i and 2i + 1 (NORM), or i and i + n (NEOX)."""

    NORM = "norm"
    NEOX = "neox"


class NormKind(Enum):
    """RMSNorm (arXiv 1910.07467): x / rms(x); LayerNorm (arXiv 1607.06450): (x - mean(x)) / std(x)."""

    RMS = "rms"
    LAYER = "layer"


class Activation(Enum):
    """The function f of a feed-forward: down(f(gate(h)) · up(h)), or down(f(up(h))) without a gate."""

    SILU = "silu"
    """x · sigmoid(x)."""
    GELU = "gelu"
    """GELU (arXiv 1606.08415) in its approximation by tanh."""
    GELU_ERF = "gelu_erf"
    """GELU by the error function."""
    RELU2 = "relu2"
    """max(x, 0)²."""
    XIELU = "xielu"
    """xIELU (arXiv 2411.13010), with the parameters α_p, α_n, β and eps."""


class PositionTable(Protocol):
    """Float32 values for each position, the same in all sequences: angles of RoPE, or factors of queries."""

    @property
    def width(self) -> int:
        """Values of a position."""

    def values(self, positions: NDArray[Any]) -> NDArray[np.float32]:
        """Float32 [n, width] at [n] positions."""


@dataclass(frozen=True, eq=False)
class Rope:
    """Rotary position embedding: pair i of a head is rotated by the angle position · frequencies[i].

    `frequencies` is float64 [pairs] in radians per token, scaling included; 2 · pairs may be less than the head's
    values, of which the first are rotated. `magnitude` multiplies cosine and sine. Contexts of more than
    `original_context` tokens take `long` in its place, where that is given (LongRoPE).
    """

    frequencies: NDArray[np.float64]
    magnitude: float
    rope_type: RopeType
    long: "Rope | None" = None
    original_context: int = 0

    @property
    def width(self) -> int:
        """Values of a position: cosine and sine of each pair's angle, so as many as a head has rotated values."""
        return 2 * len(self.frequencies)

    def in_context(self, ctx: int) -> "Rope":
        """The RoPE of a context of `ctx` tokens."""
        return self.long if self.long and ctx > self.original_context else self

    def values(self, positions: NDArray[Any]) -> NDArray[np.float32]:
        """Cosine and sine of each pair's angle, float32 [n, 2 · pairs], at [n] positions."""
        angles = positions[:, None] * self.frequencies
        both = np.empty((*angles.shape, 2), np.float32)
        both[..., 0], both[..., 1] = np.cos(angles) * self.magnitude, np.sin(angles) * self.magnitude
        return both.reshape(len(positions), self.width)


@dataclass(frozen=True)
class AttentionTemperature:
    """A factor of the queries by position: 1 + scale · ln(1 + floor(position / original_context)) (Llama 4)."""

    scale: float
    original_context: int

    @property
    def width(self) -> int:
        """One value a position."""
        return 1

    def values(self, positions: NDArray[Any]) -> NDArray[np.float32]:
        """The factors, float32 [n, 1], at [n] positions."""
        wholes = np.floor(positions / self.original_context)
        return (1 + self.scale * np.log1p(wholes)).astype(np.float32)[:, None]


@dataclass(frozen=True)
class Norm:
    """A norm over the values of a row, or of each head: times `weight`, plus `bias`, float32 vectors or None.

    The norm of heads may have a weight of its own for each head: float32 [heads, head_dim].
    """

    weight: Tensor | None
    bias: Tensor | None
    eps: float
    kind: NormKind = NormKind.RMS


@dataclass(frozen=True)
class Linear:
    """W x + b: `weight` is (rows, columns) = (outputs, inputs), `bias` float32 (rows) or None."""

    weight: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class AttentionSettings:
    """The sizes of an attention layer, and how it computes.

    `heads` query heads share `kv_heads` heads of keys of `key_dim` and values of `value_dim` values. Scores are
    `scale` · q k; with a `soft_cap` c they become c · tanh(score / c). With `window` a token sees itself and the
    window - 1 tokens before it. `rope` is None for layers without positions. With `kv_layer` the layer reads the keys
    and values of that earlier layer, and has none of its own.
    """

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    rope: Rope | None
    scale: float
    window: int | None = None
    soft_cap: float | None = None
    temperature: AttentionTemperature | None = None
    kv_layer: int | None = None

    @property
    def q_width(self) -> int:
        """Values of all query heads of a token."""
        return self.heads * self.key_dim

    @property
    def k_width(self) -> int:
        """Values of all key heads of a token."""
        return self.kv_heads * self.key_dim

    @property
    def v_width(self) -> int:
        """Values of all value heads of a token."""
        return self.kv_heads * self.value_dim

    @property
    def attention_width(self) -> int:
        """Values of the result of all heads of a token."""
        return self.heads * self.value_dim


@dataclass(frozen=True, kw_only=True)
class Attention(AttentionSettings):
    """Grouped-query attention: output(softmax(scores) V).

    `k` and `v` are None with `kv_layer`; `v` alone is None where the values are the keys as projected, before norm and
    RoPE. `q_norm`, `k_norm` and `v_norm` norm each head, or the whole projection where their weight is as long. With
    `norm_after_rope`, q and k are normed after RoPE. `sinks` is one more score of each head, whose value is 0, float32
    [heads]. With `gate`, the result of the heads is multiplied by sigmoid(gate(h)) before `output`.
    """

    norm: Norm | None = None
    q: Linear
    k: Linear | None
    v: Linear | None
    output: Linear
    q_norm: Norm | None = None
    k_norm: Norm | None = None
    v_norm: Norm | None = None
    norm_after_rope: bool = False
    sinks: Tensor | None = None
    gate: Linear | None = None
    post_norm: Norm | None = None


@dataclass(frozen=True)
class FeedForward:
    """down(f(gate(h)) · up(h)), or down(f(up(h))) without a gate; `parameters` are those of f (see `Activation`).

    With `sparsity` s, f reads max(gate - m, 0) with m = mean(gate) + s · std(gate) over all values of a row (Gemma 3n).
    """

    norm: Norm | None
    gate: Linear | None
    up: Linear
    down: Linear
    activation: Activation = Activation.SILU
    parameters: tuple[float, ...] = ()
    sparsity: float | None = None
    post_norm: Norm | None = None


@dataclass(frozen=True)
class PerLayerInput:
    """x += norm(projection(gelu(gate(x)) · e)), with the layer's part e of the per-layer embeddings (Gemma 3n, 4)."""

    gate: Linear
    projection: Linear
    norm: Norm


@dataclass(frozen=True)
class Laurel:
    """h + norm(right(left(h))) of the h that the mixer reads (learned augmented residual layer, Gemma 3n)."""

    left: Linear
    right: Linear
    norm: Norm


@dataclass(frozen=True)
class AltUp:
    """A layer's part of alternating updates (AltUp, arXiv 2301.13310) of n streams x_0 … x_n-1.

    Before the layer p_j = x_j + Σ_i (`predict`[j · n + i] · r(x_0)) x_i, with r(x) = tanh(router(norm(x)) / width) of n
    values. The layer computes y from p_0. Then x_j = p_j + (1 + `correct`[j] · r(y)) (y - p_0). `predict` is float32
    [n², n], `correct` [n, n] and `correct_scale` [width]. The layer's per-layer input reads `correct_scale` · x_0, and
    is added to x_1 … x_n-1.
    """

    norm: Norm
    router: Linear
    predict: Tensor
    correct: Tensor
    correct_scale: Tensor


@dataclass(frozen=True)
class Streams:
    """The streams of alternating updates: x_0 is the embedding, x_i = `projections`[i - 1](x_0).

    The output head reads the mean of x_0 and all `unembeddings`[i - 1](x_i). Each result of a projection is scaled to
    the root mean square of x_0.
    """

    projections: tuple[Linear, ...]
    unembeddings: tuple[Linear, ...]


@dataclass(frozen=True)
class Layer:
    """x += s · post_norm(mixer(norm(x))), then x += s · post_norm(feed_forward(norm(x))), each if there is one.

    Norms belong to the mixer and the feed-forward, each of which may have none before or behind it; s is the model's
    `residual_scale`. With `parallel` the feed-forward has no norm of its own: it reads what the mixer's norm gives, and
    both results are added to x. Then comes `per_layer_input`, and the whole x is multiplied by `output_scale`.

    With `laurel`, (x + laurel(h)) / √2 takes the place of x before the feed-forward. With `altup`, x is its prediction
    before all of this, and the result is corrected before `per_layer_input`.
    """

    mixer: Attention | None
    feed_forward: FeedForward | None
    parallel: bool = False
    per_layer_input: PerLayerInput | None = None
    output_scale: float = 1.0
    laurel: Laurel | None = None
    altup: AltUp | None = None


@dataclass(frozen=True)
class PerLayerEmbeddings:
    """Embeddings of `width` values for each layer: (norm(scale · projection(x)) + table[token] · table_scale) / √2.

    x is the scaled embedding, and each layer's part is normed alone. `table` is (vocab, layers · width), and
    `projection` has layers · width rows.
    """

    width: int
    table: Tensor
    table_scale: float
    projection: Linear
    projection_scale: float
    norm: Norm


@dataclass(frozen=True)
class ModelScales:
    """Scales of a whole model, and the soft cap of its logits: cap · tanh(logit / cap)."""

    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    logit_soft_cap: float | None = None


@dataclass(frozen=True, kw_only=True)
class Description(ModelScales):
    """A whole model: sizes, embedding, layers and output head.

    Hidden states have `width` values, and the vocabulary has `vocab` tokens. A context has at most `context_length`
    tokens.
    """

    width: int
    vocab: int
    context_length: int
    embedding: Tensor
    embedding_norm: Norm | None = None
    per_layer_embeddings: PerLayerEmbeddings | None = None
    streams: Streams | None = None
    layers: tuple[Layer, ...]
    output_norm: Norm
    output: Linear

    @cached_property
    def position_tables(self) -> tuple[Rope | AttentionTemperature, ...]:
        """The distinct position tables of all layers, in order of first use."""
        mixers = [layer.mixer for layer in self.layers if layer.mixer]
        tables = [table for mixer in mixers for table in (mixer.rope, mixer.temperature) if table]
        return tuple(dict.fromkeys(tables))

    @cached_property
    def kv_groups(self) -> tuple[int | None, ...]:
        """The distinct windows of layers that have keys and values of their own, in order; None sees all cells.

        Layers with the same window have their KV pages together.
        """
        mixers = [layer.mixer for layer in self.layers if layer.mixer and layer.mixer.kv_layer is None]
        return tuple(dict.fromkeys(mixer.window for mixer in mixers))

    @cached_property
    def last_kv_layer(self) -> int:
        """The last layer with keys and values of its own; without any, the first."""
        own = (i for i, layer in enumerate(self.layers) if layer.mixer and layer.mixer.kv_layer is None)
        return max(own, default=0)


def parts_in(part: object, kind: type[P]) -> Iterator[P]:
    """All parts of a kind in a part of a description, in order."""
    if isinstance(part, kind):
        yield part
    elif isinstance(part, list | tuple):
        for each in part:
            yield from parts_in(each, kind)
    elif is_dataclass(part):
        yield from parts_in([getattr(part, field.name) for field in fields(part)], kind)


def tensors_in(part: object) -> Iterator[Tensor]:
    """All tensors in a part of a description, in order."""
    return parts_in(part, Tensor)
