"""The blocks of a layer, and the layer: norms, projections, attention, feed-forwards, with their sizes and tensors."""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from edgellm.arch.positions import AttentionTemperature, Rope
from edgellm.gguf import Tensor

if TYPE_CHECKING:
    from edgellm.arch.latent_attention import LatentAttention
    from edgellm.arch.mixture import MixtureOfExperts
    from edgellm.arch.recurrent import Recurrent


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
    CLAMPED_SWIGLU = "clamped_swiglu"
    """min(x, limit) · sigmoid(alpha · min(x, limit)), times min(max(up, -limit), limit) + 1 in place of up (gpt-oss,
    arXiv 2508.10925), with the parameters limit and alpha."""


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
    """f W x + b: `weight` is (rows, columns) = (outputs, inputs), `bias` float32 (rows) or None, `factor` float32 (1)
    or None for 1."""

    weight: Tensor
    bias: Tensor | None = None
    factor: Tensor | None = None


@dataclass(frozen=True)
class StackedLinear:
    """f_i W_i x + b_i for each i of a stack: `weight` is (matrices, stored rows, columns); W_i has `rows` of the rows.

    These begin at row `first` of each matrix, as gate and up may be stored as one. `bias` is float32 (matrices,
    stored rows) or None, `factors` float32 (matrices) or None for 1.
    """

    weight: Tensor
    rows: int
    first: int = 0
    bias: Tensor | None = None
    factors: Tensor | None = None

    @property
    def first_matrix(self) -> Tensor:
        """W_0, a view of the same bytes: (rows, columns)."""
        return self.weight.matrix(0).rows(self.first, self.first + self.rows)

    @property
    def first_bias(self) -> Tensor | None:
        """b_0, if there are biases."""
        return self.bias.matrix(0).rows(self.first, self.first + self.rows) if self.bias else None


class GateFunction(Enum):
    """The function of a gate whose result multiplies the result of attention."""

    SIGMOID = "sigmoid"
    SOFTPLUS = "softplus"
    """ln(1 + e^x)."""


@dataclass(frozen=True)
class AttentionSettings:
    """The sizes of an attention layer, and how it computes.

    `heads` query heads share `kv_heads` heads of keys of `key_dim` and values of `value_dim` values. Scores are
    `scale` · q k; with a `soft_cap` c they become c · tanh(score / c). With `window` a token sees itself and the
    window - 1 tokens before it; with `chunked` only those of them that are in the same chunk: chunk i is positions
    i · window … (i + 1) · window - 1. `rope` is None for layers without positions. With `kv_layer` the layer reads the
    keys and values of that earlier layer, and has none of its own. A layer's gate has a value for each of attention's
    result, or with `gate_per_head` one for each head. With `gate_in_q`, the projection of q has rows of both: for each
    head `key_dim` of q, then as many of the gate.
    """

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    rope: Rope | None
    scale: float
    window: int | None = None
    chunked: bool = False
    soft_cap: float | None = None
    temperature: AttentionTemperature | None = None
    kv_layer: int | None = None
    gate_function: GateFunction = GateFunction.SIGMOID
    gate_per_head: bool = False
    gate_in_q: bool = False

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

    @property
    def stored_value_dim(self) -> int:
        """Values of each value head that KV pages hold beside the keys."""
        return self.value_dim

    @property
    def gate_width(self) -> int:
        """Values of the gate of a token."""
        return self.heads if self.gate_per_head else self.attention_width


@dataclass(frozen=True, kw_only=True)
class Attention(AttentionSettings):
    """Grouped-query attention: output(softmax(scores) V).

    `k` and `v` are None with `kv_layer`; `v` alone is None where the values are the keys as projected, before norm and
    RoPE, with `v_norm`. `q_norm`, `k_norm` and `v_norm` norm each head, or the whole projection where their weight is
    as long. With `norm_after_rope`, q and k are normed after RoPE. `sinks` is one more score of each head, whose value
    is 0, float32 [heads]. With `gate`, the result of the heads is multiplied by `gate_function` of gate(h)
    before `output`.
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

    @property
    def has_gate(self) -> bool:
        """Whether a gate multiplies the result of the heads."""
        return self.gate is not None or self.gate_in_q


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
    """h + norm(right(left(h))) of the h that attention reads (learned augmented residual layer, Gemma 3n)."""

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
class Layer:
    """x += s · post_norm(mixer(norm(x))), then x += s · post_norm(feed_forward(norm(x))), each if there is one.

    The mixer is `attention` or `recurrent`. Where a layer has both, they read the same norm(x), which is that of
    attention, and both results are added to x. Norms belong to the mixer and the feed-forward, each of which may have
    none before or behind it; s is the model's `residual_scale`. With `parallel` the feed-forward has no norm of its
    own: it reads what the norm of attention gives, and both results are added to x. Then comes `per_layer_input`, and
    the whole x is multiplied by `output_scale`.

    With `laurel`, (x + laurel(h)) / √2 takes the place of x before the feed-forward. With `altup`, x is its prediction
    before all of this, and the result is corrected before `per_layer_input`.
    """

    attention: "Attention | LatentAttention | None"
    feed_forward: "FeedForward | MixtureOfExperts | None"
    parallel: bool = False
    per_layer_input: PerLayerInput | None = None
    output_scale: float = 1.0
    laurel: Laurel | None = None
    altup: AltUp | None = None
    recurrent: "Recurrent | None" = None
