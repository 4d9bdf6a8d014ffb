"""Granite with experts: four multipliers, and perhaps a shared expert."""

from dataclasses import replace

from converters.architectures.config import Config
from converters.architectures.families import granite
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import MAX_FFN, CheckpointSizes, read_sizes_with_experts

_SHARED = "shared_intermediate_size"


def _check(config: Config) -> None:
    if not config.integer("num_local_experts", least=0):
        config.refuse("GraniteMoeShared without experts (num_local_experts 0) is not supported")


def _sizes(config: Config) -> CheckpointSizes:
    return replace(read_sizes_with_experts(config), shared_ffn=config.integer(_SHARED, 0, least=0, most=MAX_FFN))


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    granite.FAMILY.write(keys, model)
    if model.sizes.shared_ffn:
        keys.integer("expert_shared_feed_forward_length", model.sizes.shared_ffn)


FAMILY = replace(granite.FAMILY, check=_check, sizes=_sizes, write=_write)
