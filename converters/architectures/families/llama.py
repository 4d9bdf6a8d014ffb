"""Llama, Mistral, and Mixtral, which has experts in all layers."""

from collections.abc import Collection

from converters.architectures.config import Config
from converters.architectures.experts import lacks_of
from converters.architectures.families.family import Family
from converters.architectures.model import TextModel
from converters.architectures.sizes import EXPERT_COUNTS, CheckpointSizes, read_sizes, read_sizes_with_experts


def _sizes(config: Config) -> CheckpointSizes:
    has_experts = any(key in config and config.integer(key, least=0) > 1 for key in EXPERT_COUNTS)
    return read_sizes_with_experts(config) if has_experts else read_sizes(config)


def _omitted(model: TextModel) -> Collection[str]:
    """Omit the size of a head in Mixtral where config.json has none: that of the others has a default."""
    is_usual = model.sizes.experts and not model.config.given("head_dim")
    return ("attention.key_length", "attention.value_length") if is_usual else ()


FAMILY = Family(sizes=_sizes, lacks=lacks_of(lambda model, layer: model.sizes.experts > 0), omitted=_omitted)
