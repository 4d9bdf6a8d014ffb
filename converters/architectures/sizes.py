"""The sizes of a model, layer by layer, from config.json."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from converters.architectures.config import Config
from edgellm.arch.hyperparameters import MAX_EXPERTS, MAX_HEAD_DIM
from edgellm.arch.layer_sizes import LayerSizes
from edgellm.arch.recurrent import RecurrentSettings, recurrent_sizes

_MAX_LAYERS = 1024
MAX_FFN = 1 << 22
MAX_WIDTH = 1 << 20
MAX_HEADS = 1 << 12
MAX_VOCABULARY = 1 << 24
"""The largest sizes that config.json may give, several times those of any published model."""

EXPERT_COUNTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
"""The keys of config.json that count experts."""
USED_EXPERTS = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_k")
_SHARED_EXPERTS = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")


@dataclass(frozen=True)
class LatentSizes:
    """The sizes of latent attention, see `edgellm.arch.latent_attention.LatentSettings`."""

    plain_dim: int
    rope_dim: int
    head_value_dim: int
    latent_dim: int
    q_rank: int

    def of_layer(self, sizes: "CheckpointLayerSizes") -> "CheckpointLayerSizes":
        """The sizes of a layer with those of its latent attention."""
        return replace(
            sizes,
            q_width=sizes.heads * (self.plain_dim + self.rope_dim),
            v_width=self.latent_dim,
            attention_width=sizes.heads * self.head_value_dim,
            q_rank=self.q_rank,
            plain_dim=self.plain_dim,
            head_value_dim=self.head_value_dim,
        )


@dataclass(frozen=True)
class CheckpointSizes:
    """The sizes of a model; tuples have a value for each layer.

    `kv_heads` heads of keys and values are shared by `heads` query heads; keys and values of a head have as many
    values as `head_dim` says. `per_layer_width` are the values of a layer's own embedding of a token, 0 for none.
    `experts` are those of a layer with a mixture of experts, each of width `expert_ffn`; `used_experts` of them compute
    a token. `shared_ffn` is the width of its shared experts together. With `latent`, attention is latent, with one KV
    head of latent and RoPE. The last `prediction_layers` layers are those for multi-token prediction. `layer_heads` are
    the query heads of each layer, where they differ. With `gate_per_head` a gate of attention has a value for each
    head, else one for each value of its result.

    Of a hybrid model, layers without attention have 0 `kv_heads`, those without a feed-forward an `ffn` of 0, and
    `recurrent` has the settings of the recurrent mixer of each layer, None for those without.
    """

    width: int
    vocab: int
    context_length: int
    heads: int
    kv_heads: tuple[int, ...]
    head_dim: tuple[int, ...]
    ffn: tuple[int, ...]
    per_layer_width: int = 0
    experts: int = 0
    used_experts: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    latent: LatentSizes | None = None
    prediction_layers: int = 0
    layer_heads: tuple[int, ...] = ()
    gate_per_head: bool = False
    recurrent: tuple[RecurrentSettings | None, ...] = ()
    expert_latent: int = 0

    @property
    def layer_count(self) -> int:
        """Number of layers."""
        return len(self.ffn)

    @property
    def recurrent_settings(self) -> RecurrentSettings | None:
        """The settings of recurrent layers, which all have the same; None for a model without any."""
        return next((each for each in self.recurrent if each), None)

    def with_recurrent_layers(self, settings: RecurrentSettings, is_recurrent: Sequence[bool]) -> "CheckpointSizes":
        """The same with recurrent mixers in place of attention, in the layers for which `is_recurrent` says so."""
        return replace(
            self,
            kv_heads=tuple(0 if each else n for each, n in zip(is_recurrent, self.kv_heads, strict=True)),
            recurrent=tuple(settings if each else None for each in is_recurrent),
        )

    def with_prediction_layers(self, count: int) -> "CheckpointSizes":
        """The same with `count` more layers, of the sizes of the last, or of the last with attention."""
        kv_heads = next((each for each in reversed(self.kv_heads) if each), 0)
        return replace(
            self,
            kv_heads=self.kv_heads + (kv_heads,) * count,
            head_dim=self.head_dim + self.head_dim[-1:] * count,
            ffn=self.ffn + self.ffn[-1:] * count,
            prediction_layers=count,
            recurrent=self.recurrent + (None,) * count if self.recurrent else (),
        )

    def layer(self, index: int) -> "CheckpointLayerSizes":
        """The sizes of a layer, by the names that the shapes of tensors have for them."""
        heads = self.layer_heads[index] if self.layer_heads else self.heads
        heads, key_dim = (heads, self.head_dim[index]) if self.kv_heads[index] else (0, 0)
        kv_width = self.kv_heads[index] * key_dim
        sizes = CheckpointLayerSizes(
            width=self.width,
            vocab=self.vocab,
            ffn=self.ffn[index],
            heads=heads,
            kv_heads=self.kv_heads[index],
            key_dim=key_dim,
            q_width=heads * key_dim,
            k_width=kv_width,
            v_width=kv_width,
            attention_width=heads * key_dim,
            gate_width=heads if self.gate_per_head else heads * key_dim,
            per_layer_width=self.per_layer_width,
            per_layer_total=self.per_layer_width * self.layer_count,
            experts=self.experts,
            expert_ffn=self.expert_ffn,
            shared_ffn=self.shared_ffn,
            expert_latent=self.expert_latent,
            **recurrent_sizes(self.recurrent[index] if self.recurrent else None),
        )
        return self.latent.of_layer(sizes) if self.latent and heads else sizes


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


def read_sizes(config: Config, own_head_dim: int | None = None, *, has_feed_forwards: bool = True) -> CheckpointSizes:
    """The sizes that config.json gives, checked against each other. Raises ModelFileError.

    `own_head_dim` is that of a model whose heads do not have the size that the usual keys give. Without
    `has_feed_forwards`, config.json may have no width of these, which is 0 then.
    """
    layers = layer_count(config)
    width = config.integer("hidden_size", most=MAX_WIDTH)
    heads = config.integer("num_attention_heads", most=MAX_HEADS)
    kv_heads = config.integer("num_key_value_heads", heads, most=MAX_HEADS)
    head_dim = own_head_dim or config.integer("head_dim", width // heads, most=MAX_HEAD_DIM)
    if heads % kv_heads:
        config.fail(f"{heads} attention heads cannot share {kv_heads} key-value heads; correct it")
    has_width = has_feed_forwards or "intermediate_size" in config
    if head_dim % 2 or (own_head_dim is None and "head_dim" not in config and width % heads):
        config.fail(f"heads of {head_dim} dimensions in a model of width {width} are impossible; correct it")
    return CheckpointSizes(
        width=width,
        vocab=config.integer("vocab_size", most=MAX_VOCABULARY),
        context_length=config.integer("max_position_embeddings", 2048),
        heads=heads,
        kv_heads=(kv_heads,) * layers,
        head_dim=(head_dim,) * layers,
        ffn=tuple(config.integers("intermediate_size", layers, most=MAX_FFN)) if has_width else (0,) * layers,
    )


def read_sizes_with_experts(
    config: Config, own_head_dim: int | None = None, *, has_feed_forwards: bool = True
) -> CheckpointSizes:
    """The sizes of a model with a mixture of experts, by the keys that most of them have. Raises ModelFileError.

    Experts without a width of their own (`moe_intermediate_size`) have that of the feed-forward.
    """
    sizes = read_sizes(config, own_head_dim, has_feed_forwards=has_feed_forwards)
    counted = given_key(config, EXPERT_COUNTS)
    experts, used = config.integer(counted, most=MAX_EXPERTS), config.integer(given_key(config, USED_EXPERTS))
    check_used_experts(config, used, experts, counted)
    ffn = config.integer("moe_intermediate_size", sizes.ffn[0], most=MAX_FFN)
    shared = config.integer(given_key(config, _SHARED_EXPERTS), 0, least=0, most=MAX_EXPERTS) * ffn
    shared = config.integer("shared_expert_intermediate_size", shared, least=0, most=MAX_FFN)
    return replace(sizes, experts=experts, used_experts=used, expert_ffn=ffn, shared_ffn=shared)


def check_used_experts(config: Config, used: int, experts: int, counted: str) -> None:
    """Raise ModelFileError if `used` experts of a token are more than all, which the key `counted` counts."""
    if used > experts:
        config.fail(f"{used} experts compute each token, and {counted} is {experts}; correct it")


def given_key(config: Config, keys: Sequence[str]) -> str:
    """The first of `keys` that config.json has; else the first that has a default, or simply the first."""
    return next(filter(config.given, keys), next((key for key in keys if key in config), keys[0]))
