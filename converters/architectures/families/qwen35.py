"""Qwen3.5 and its successors: gated DeltaNet beside attention. Files have the heads of values in an order of their own.

Checkpoints have the heads of values that share a key head behind each other; in GGUF the heads of values repeat the key
heads in order. Checkpoints store the weights of norms less 1, except those of gated DeltaNet.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from converters.architectures.biases import check_no_biases
from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.recurrent import LINEAR_OR_FULL, check_head_dim, decay_rates, listed_layers, write_ssm
from converters.architectures.sizes import MAX_HEADS, CheckpointSizes, layer_count, read_sizes
from converters.architectures.sources import plus_one, reordered_columns, reordered_rows
from converters.tensors import Source
from edgellm.arch.hyperparameters import MAX_HEAD_DIM
from edgellm.arch.recurrent import DeltaNetSettings
from kquants.layout import MAX_TAPS

_SECTIONS = (11, 11, 10, 0)
"""The sections of M-RoPE where config.json has none, as in transformers."""

_SSM_ORDER = ("conv_kernel", "state_size", "group_count", "time_step_rank", "inner_size")


def check(config: Config) -> None:
    """Refuse attention with biases or without a gate, which the architecture does not have."""
    check_no_biases(config)
    if not config.flag("attn_output_gate", default=True):
        config.refuse("attention without a gate (attn_output_gate false) is not supported for this architecture")


def recurrent_layers(config: Config) -> list[bool]:
    """Whether each layer is recurrent: by `layer_types`, else all but the last of each group. Raises ModelFileError."""
    interval = config.integer("full_attention_interval", 4)
    every = [(i + 1) % interval != 0 for i in range(layer_count(config))]
    return listed_layers(config, *LINEAR_OR_FULL) or every


def with_delta_net(config: Config, sizes: CheckpointSizes, *, grouped: bool) -> CheckpointSizes:
    """The sizes with those of recurrent layers, which have no attention. Raises ModelFileError."""
    heads, key_heads = (config.integer(f"linear_num_{kind}_heads", most=MAX_HEADS) for kind in ("value", "key"))
    if heads % key_heads:
        config.fail(f"{heads} heads of values cannot share {key_heads} heads of keys; correct it")
    settings = DeltaNetSettings(
        heads=heads,
        key_heads=key_heads,
        key_dim=config.integer("linear_key_head_dim", most=MAX_HEAD_DIM),
        value_dim=config.integer("linear_value_head_dim", most=MAX_HEAD_DIM),
        grouped=grouped,
        taps=config.integer("linear_conv_kernel_dim", least=2, most=MAX_TAPS),
    )
    check_head_dim(config, settings.value_dim)
    return sizes.with_recurrent_layers(settings, recurrent_layers(config))


def delta_net(model: TextModel) -> DeltaNetSettings | None:
    """The settings of the recurrent layers; None for a model without any."""
    settings = model.sizes.recurrent_settings
    return settings if isinstance(settings, DeltaNetSettings) else None


def write_delta_net(keys: ArchitectureKeys, model: TextModel) -> None:
    """Add the keys of prediction layers, of recurrent layers, and of RoPE's part of a head."""
    config, sizes = model.config, model.sizes
    keys.integer("attention.head_count_kv", config.integer("num_key_value_heads", sizes.heads))
    if sizes.prediction_layers:
        keys.integer("nextn_predict_layers", sizes.prediction_layers)
    write_ssm(keys, sizes, _SSM_ORDER)
    keys.flags("attention.recurrent_layers", [each is not None for each in sizes.recurrent])
    keys.integer("full_attention_interval", config.integer("full_attention_interval", 4))
    keys.integer("rope.dimension_count", int(sizes.head_dim[0] * model.rope.rotary_fraction))


def write(keys: ArchitectureKeys, model: TextModel) -> None:
    """Add the keys of `write_delta_net`, and the sections of M-RoPE where config.json has none."""
    write_delta_net(keys, model)
    if "mrope_section" not in model.rope.full:
        keys.integers("rope.dimension_sections", _SECTIONS)


def norms_plus_one(sources: list[Source]) -> list[Source]:
    """The tensors with 1 added to the weights of all norms but that of gated DeltaNet."""
    return [
        plus_one(each) if each.name.endswith("norm.weight") and not each.name.endswith(".ssm_norm.weight") else each
        for each in sources
    ]


def sources(model: TextModel, found: list[Source]) -> list[Source]:
    """The tensors as GGUF has them: rates of decay, norms, and the heads of values in the order of key heads."""
    made, settings = norms_plus_one(decay_rates(model, found)), delta_net(model)
    return [_reordered(source, settings) for source in made] if settings else made


def _reordered(source: Source, settings: DeltaNetSettings) -> Source:
    """A tensor with the heads of values in the order of GGUF."""
    reorder = _REORDERED.get(source.name.split(".", 2)[-1])
    return reorder(source, settings) if reorder else source


def _order(settings: DeltaNetSettings, value_dim: int) -> NDArray[np.intp]:
    """For each value in GGUF its index in a checkpoint, where a head has `value_dim` values."""
    shape = (settings.key_heads, settings.heads // settings.key_heads, value_dim)
    return np.arange(settings.heads * value_dim).reshape(shape).swapaxes(0, 1).reshape(-1)


def _order_behind_keys(settings: DeltaNetSettings) -> NDArray[np.intp]:
    """For each value of [q | k | v] in GGUF its index in a checkpoint: those of q and k keep their places."""
    before = settings.qkv_width - settings.value_width
    return np.concatenate([np.arange(before), before + _order(settings, settings.value_dim)])


_REORDERED: dict[str, Callable[[Source, DeltaNetSettings], Source]] = {
    "attn_qkv.weight": lambda source, settings: reordered_rows(source, _order_behind_keys(settings)),
    "ssm_conv1d.weight": lambda source, settings: reordered_rows(source, _order_behind_keys(settings)),
    "attn_gate.weight": lambda source, settings: reordered_rows(source, _order(settings, settings.value_dim)),
    "ssm_alpha.weight": lambda source, settings: reordered_rows(source, _order(settings, 1)),
    "ssm_beta.weight": lambda source, settings: reordered_rows(source, _order(settings, 1)),
    "ssm_a": lambda source, settings: reordered_columns(source, _order(settings, 1)),
    "ssm_dt.bias": lambda source, settings: reordered_columns(source, _order(settings, 1)),
    "ssm_out.weight": lambda source, settings: reordered_columns(source, _order(settings, settings.value_dim)),
}
"""By name in GGUF: how a tensor that has values of each head is reordered."""


def _sizes(config: Config) -> CheckpointSizes:
    return with_delta_net(config, read_sizes(config), grouped=False)


FAMILY = Family(check=check, sizes=_sizes, write=write, sources=sources, partial_rotary=True, separate_prediction=True)
