"""Mellum 2: experts in all layers, windows in some."""

from collections.abc import Collection

from converters.architectures.config import Config
from converters.architectures.experts import check_normalized, dense_layers
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import read_sizes_with_experts
from converters.architectures.windows import windowed_layers

_ALL_FULL = 1


def _check(config: Config) -> None:
    if dense_layers(config, otherwise=0):
        config.refuse("layers without experts (mlp_layer_types) are not supported for mellum")
    check_normalized(config)


def has_windows(model: TextModel) -> bool:
    """Whether some layers have a window."""
    return "sliding_window" in model.config and any(windowed_layers(model.config, _ALL_FULL))


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    keys.integer("expert_feed_forward_length", model.sizes.expert_ffn)
    if has_windows(model):
        keys.integer("attention.sliding_window", model.config.integer("sliding_window"))
        keys.flags("attention.sliding_window_pattern", windowed_layers(model.config, _ALL_FULL))


def _omitted(model: TextModel) -> Collection[str]:
    """The RoPE of windowed layers, in a model without any."""
    return () if has_windows(model) else ("rope.freq_base_swa",)


FAMILY = Family(check=_check, sizes=read_sizes_with_experts, write=_write, omitted=_omitted)
