"""OLMoE: experts are as wide as the feed-forward that config.json speaks of."""

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.families.qwen2moe import refuse_normalized_weights
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import read_sizes_with_experts


def _check(config: Config) -> None:
    refuse_normalized_weights(config)
    if "clip_qkv" in config:
        config.refuse("clipped projections of q, k and v (clip_qkv) are not supported; choose another model")


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    """Add nothing."""


FAMILY = Family(check=_check, sizes=read_sizes_with_experts, write=_write)
