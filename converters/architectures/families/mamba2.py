"""Mamba-2: recurrent mixers alone. llama.cpp's converter gives all of them a context of 2^20 tokens."""

from collections.abc import Collection

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.mamba import MAX_INNER, check_mamba, plain_mamba
from converters.architectures.model import TextModel
from converters.architectures.recurrent import decay_rates, write_ssm
from converters.architectures.sizes import CheckpointSizes, layer_count
from converters.tensors import Source
from edgellm.arch.recurrent import MambaSettings

UNLIMITED_CONTEXT = 1 << 20
"""The context length of models without positions, in tokens."""

_SSM_ORDER = ("conv_kernel", "inner_size", "state_size", "time_step_rank", "group_count")

KEY_ORDER = (
    *("context_length", "embedding_length", "feed_forward_length", "attention.head_count", "block_count"),
    *(f"ssm.{name}" for name in _SSM_ORDER),
    *("attention.layer_norm_rms_epsilon", "general.file_type"),
)
"""The order of keys in files of Mamba-2 and of Falcon-H1."""


def _check(config: Config) -> None:
    check_mamba(config, ("use_bias",))


def _sizes(config: Config) -> CheckpointSizes:
    layers, width = layer_count(config), config.integer("hidden_size", most=MAX_INNER)
    settings = plain_mamba(config, config.integer("expand", most=1 << 8) * width)
    none = (0,) * layers
    return CheckpointSizes(
        width=width,
        vocab=config.integer("vocab_size", most=1 << 24),
        context_length=UNLIMITED_CONTEXT,
        heads=0,
        kv_heads=none,
        head_dim=none,
        ffn=none,
        recurrent=(settings,) * layers,
    )


def write_mamba(keys: ArchitectureKeys, model: TextModel) -> None:
    """Add the keys of Mamba-2, whose layers all have the same settings."""
    settings = next(each for each in model.sizes.recurrent if isinstance(each, MambaSettings))
    write_ssm(keys, settings, _SSM_ORDER)


def _omitted(model: TextModel) -> Collection[str]:
    return ("attention.head_count_kv", "attention.key_length", "attention.value_length", "rope.freq_base")


def _sources(model: TextModel, found: list[Source]) -> list[Source]:
    return decay_rates(found)


FAMILY = Family(check=_check, sizes=_sizes, write=write_mamba, order=KEY_ORDER, omitted=_omitted, sources=_sources)
