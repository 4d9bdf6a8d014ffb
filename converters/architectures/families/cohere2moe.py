"""Cohere 2 with experts: the first layers are dense, and some of them have RoPE without a window."""

from collections.abc import Collection
from dataclasses import replace

from converters.architectures.config import Config
from converters.architectures.experts import dense_layers, lacks_of
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.prediction import write_prediction_layers
from converters.architectures.sizes import CheckpointSizes, layer_count, read_sizes_with_experts
from converters.architectures.windows import windowed_layers

_EVERY = 4
_PREFIX_PATTERN = "prefix_dense_sliding_window_pattern"


def _windowed(config: Config) -> list[bool]:
    """Whether each layer is windowed; the pattern begins behind the dense layers, which have one of their own."""
    if config.names("layer_types"):
        return windowed_layers(config, _EVERY)
    dense, layers = dense_layers(config, otherwise=0), layer_count(config)
    of_prefix, of_others = config.integer(_PREFIX_PATTERN, 1), config.integer("sliding_window_pattern", _EVERY)
    others = [(i + 1) % of_others != 0 for i in range(layers - dense)]
    return [*((i + 1) % of_prefix != 0 for i in range(dense)), *others]


def _check(config: Config) -> None:
    dense = dense_layers(config, otherwise=0)
    if config.integer(_PREFIX_PATTERN, 1) != 1 and not all(_windowed(config)[:dense]):
        config.refuse(f"dense layers with neither a window nor RoPE ({_PREFIX_PATTERN}) are not supported")
    strategy = config.word("shared_expert_combination_strategy", "average")
    if strategy != "average" and config.integer("num_shared_experts", 0, least=0):
        config.refuse("shared experts that are added (shared_expert_combination_strategy) are not supported")


def _sizes(config: Config) -> CheckpointSizes:
    """The width of experts is `intermediate_size`, and that of dense layers has a key of its own."""
    sizes = read_sizes_with_experts(config)
    width = config.integer("prefix_dense_intermediate_size", sizes.ffn[0], most=1 << 22)
    return replace(sizes, ffn=(width,) * sizes.layer_count)


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    config, sizes = model.config, model.sizes
    if "rms_norm_eps" in config:
        keys.number("attention.layer_norm_rms_epsilon", config.number("rms_norm_eps"))
    keys.number("logit_scale", config.number("logit_scale", least=1e-9))
    keys.integer("attention.sliding_window", config.integer("sliding_window"))
    keys.flags("attention.sliding_window_pattern", _windowed(config))
    keys.integer("vocab_size", sizes.vocab)
    keys.integer("expert_feed_forward_length", sizes.expert_ffn)
    keys.integer("leading_dense_block_count", dense_layers(config, otherwise=0))
    keys.flag("expert_weights_norm", config.flag("norm_topk_prob", default=True))
    if sizes.shared_ffn:
        keys.integer("expert_shared_count", config.integer("num_shared_experts"))
        keys.integer("expert_shared_feed_forward_length", sizes.shared_ffn)
    if sizes.prediction_layers:
        write_prediction_layers(keys, model)
    keys.integer("rope.dimension_count", sizes.head_dim[0])
    if model.rope.kind == "default":
        keys.word("rope.scaling.type", "none")


def _has_experts(model: TextModel, layer: int) -> bool:
    return layer >= dense_layers(model.config, otherwise=0)


def _omitted(model: TextModel) -> Collection[str]:
    """The epsilon of LayerNorm, in models whose norms are RMS norms and whose config.json does not have it."""
    is_rms = "rms_norm_eps" in model.config and not model.config.given("layer_norm_eps")
    return ("attention.layer_norm_epsilon",) if is_rms else ()


FAMILY = Family(
    check=_check,
    sizes=_sizes,
    write=_write,
    order=(
        *("block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"),
        *("attention.head_count_kv", "rope.freq_base", "attention.layer_norm_rms_epsilon"),
    ),
    omitted=_omitted,
    lacks=lacks_of(_has_experts),
)
