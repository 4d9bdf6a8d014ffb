"""The sizes of a model, layer by layer, from config.json."""

from collections.abc import Callable
from dataclasses import dataclass

from converters.architectures.config import Config
from edgellm.arch.hyperparameters import LayerSizes

_MAX_LAYERS = 1024
_MAX_FFN = 1 << 22


@dataclass(frozen=True)
class CheckpointSizes:
    """The sizes of a model; tuples have a value for each layer.

    `kv_heads` heads of keys and values are shared by `heads` query heads; keys and values of a head have as many
    values as `head_dim` says. `per_layer_width` are the values of a layer's own embedding of a token, 0 for none.
    """

    width: int
    vocab: int
    context_length: int
    heads: int
    kv_heads: tuple[int, ...]
    head_dim: tuple[int, ...]
    ffn: tuple[int, ...]
    per_layer_width: int = 0

    @property
    def layer_count(self) -> int:
        """Number of layers."""
        return len(self.ffn)

    def layer(self, index: int) -> "CheckpointLayerSizes":
        """The sizes of a layer, by the names that the shapes of tensors have for them."""
        key_dim, kv_width = self.head_dim[index], self.kv_heads[index] * self.head_dim[index]
        return CheckpointLayerSizes(
            width=self.width,
            vocab=self.vocab,
            ffn=self.ffn[index],
            heads=self.heads,
            kv_heads=self.kv_heads[index],
            key_dim=key_dim,
            q_width=self.heads * key_dim,
            k_width=kv_width,
            v_width=kv_width,
            attention_width=self.heads * key_dim,
            per_layer_width=self.per_layer_width,
            per_layer_total=self.per_layer_width * self.layer_count,
        )


@dataclass(frozen=True, kw_only=True)
class CheckpointLayerSizes(LayerSizes):
    """The sizes of a layer, with those of per-layer embeddings: values of each layer's part, and of all parts."""

    per_layer_width: int
    per_layer_total: int


SizesReader = Callable[[Config], CheckpointSizes]
"""Reads the sizes from the configuration of a text model. Raises ModelFileError."""


def layer_count(config: Config) -> int:
    """Number of layers."""
    return config.integer("num_hidden_layers", most=_MAX_LAYERS)


def read_sizes(config: Config) -> CheckpointSizes:
    """The sizes that config.json gives, checked against each other. Raises ModelFileError."""
    layers = layer_count(config)
    width = config.integer("hidden_size", most=1 << 20)
    heads = config.integer("num_attention_heads", most=1 << 12)
    kv_heads = config.integer("num_key_value_heads", heads, most=1 << 12)
    head_dim = config.integer("head_dim", width // heads, most=1024)
    if heads % kv_heads:
        config.fail(f"{heads} attention heads cannot share {kv_heads} key-value heads; correct it")
    if head_dim % 2 or ("head_dim" not in config and width % heads):
        config.fail(f"heads of {head_dim} dimensions in a model of width {width} are impossible; correct it")
    return CheckpointSizes(
        width=width,
        vocab=config.integer("vocab_size", most=1 << 24),
        context_length=config.integer("max_position_embeddings", 2048),
        heads=heads,
        kv_heads=(kv_heads,) * layers,
        head_dim=(head_dim,) * layers,
        ffn=tuple(config.integers("intermediate_size", layers, most=_MAX_FFN)),
    )
