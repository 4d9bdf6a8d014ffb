"""The description of a model: sizes and tensors, layer by layer. Nothing here computes a token."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from edgellm.arch.blocks import AttentionSettings, Layer, Linear, Norm
from edgellm.arch.positions import AttentionTemperature, Rope
from edgellm.gguf import Tensor

if TYPE_CHECKING:
    from edgellm.arch.head import PairEntry

P = TypeVar("P")


@dataclass(frozen=True)
class Streams:
    """The streams of alternating updates: x_0 is the embedding, x_i = `projections`[i - 1](x_0).

    The output head reads the mean of x_0 and all `unembeddings`[i - 1](x_i). Each result of a projection is scaled to
    the root mean square of x_0.
    """

    projections: tuple[Linear, ...]
    unembeddings: tuple[Linear, ...]


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
    tokens. Heads that draft have an `entry` (see `edgellm.arch.head`), and perhaps `feedback`, which makes the features
    of the next row of the state behind the last norm. Where `target_attention` is not empty, it is that of the layers
    of the head's target, whose keys and values all layers of the head read: `kv_layer` is a layer of the target.
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
    entry: "PairEntry | None" = None
    feedback: Linear | None = None
    target_attention: tuple[AttentionSettings, ...] = ()

    @property
    def logits(self) -> int:
        """Logits of a row: one for each token, but for heads with fewer."""
        return self.output.weight.shape[0]

    @property
    def feature_width(self) -> int:
        """Values of a row of features of a head: as many as of an embedding."""
        return self.embedding.shape[1]

    @property
    def hidden_width(self) -> int:
        """Values of the state that a head gives for the next row."""
        return self.feedback.weight.shape[0] if self.feedback else self.width

    @cached_property
    def position_tables(self) -> tuple[Rope | AttentionTemperature, ...]:
        """The distinct position tables of all layers, in order of first use."""
        attentions = [layer.attention for layer in self.layers if layer.attention]
        tables = [table for attention in attentions for table in (attention.rope, attention.temperature) if table]
        return tuple(dict.fromkeys(tables))

    @cached_property
    def kv_groups(self) -> tuple[int | None, ...]:
        """The distinct windows of layers that have keys and values of their own, in order; None sees all cells.

        Layers with the same window have their KV pages together.
        """
        attentions = self.target_attention or [layer.attention for layer in self.layers if layer.attention]
        return tuple(dict.fromkeys(attention.window for attention in attentions if attention.kv_layer is None))

    @cached_property
    def last_state_layer(self) -> int:
        """The last layer with keys and values of its own, or with a recurrent state; without any, the first."""
        has_state = (layer.recurrent or (layer.attention and layer.attention.kv_layer is None) for layer in self.layers)
        return max((i for i, has in enumerate(has_state) if has), default=0)

    @cached_property
    def is_recurrent(self) -> bool:
        """Whether any layer has a recurrent state."""
        return any(layer.recurrent for layer in self.layers)

    @cached_property
    def state_bytes(self) -> int:
        """Bytes of the states of all recurrent layers behind one token of a sequence."""
        return sum(layer.recurrent.state_bytes for layer in self.layers if layer.recurrent)


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
