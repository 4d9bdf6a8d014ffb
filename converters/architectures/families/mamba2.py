"""Mamba-2: recurrent mixers alone. llama.cpp's converter gives all of them a context of 2^20 tokens."""

from collections.abc import Collection

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.mamba import MambaKeys, check_mamba, mamba_sources, read_mamba
from converters.architectures.model import TextModel
from converters.architectures.recurrent import write_ssm
from converters.architectures.sizes import MAX_VOCABULARY, MAX_WIDTH, CheckpointSizes, layer_count
from edgellm.arch.recurrent import RecurrentSettings

UNLIMITED_CONTEXT = 1 << 20
"""The context length of models without positions, in tokens."""

_KEYS = MambaKeys("num_heads", "head_dim", "n_groups", "state_size", "conv_kernel")
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
    width = config.integer("hidden_size", most=MAX_WIDTH)
    settings = read_mamba(config, _KEYS, config.integer("expand", most=1 << 8) * width)
    return sizes_of_mixers(config, width, settings)


def sizes_of_mixers(config: Config, width: int, settings: RecurrentSettings) -> CheckpointSizes:
    """The sizes of a model whose layers are all recurrent mixers of `settings`, `width` wide."""
    layers = layer_count(config)
    none = (0,) * layers
    return CheckpointSizes(
        width=width,
        vocab=config.integer("vocab_size", most=MAX_VOCABULARY),
        context_length=UNLIMITED_CONTEXT,
        heads=0,
        kv_heads=none,
        head_dim=none,
        ffn=none,
        recurrent=(settings,) * layers,
    )


def write_mamba(keys: ArchitectureKeys, model: TextModel) -> None:
    """Add the keys of Mamba-2."""
    write_ssm(keys, model.sizes, _SSM_ORDER)


def keys_of_attention(model: TextModel) -> Collection[str]:
    """The keys that models without attention lack."""
    return ("attention.head_count_kv", "attention.key_length", "attention.value_length", "rope.freq_base")


FAMILY = Family(
    check=_check, sizes=_sizes, write=write_mamba, order=KEY_ORDER, omitted=keys_of_attention, sources=mamba_sources
)
