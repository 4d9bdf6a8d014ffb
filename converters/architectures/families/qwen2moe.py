"""Qwen2 with experts in all layers, and a shared one."""

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.families.qwen3moe import check_all_layers_have_experts, write
from converters.architectures.sizes import read_sizes_with_experts


def refuse_normalized_weights(config: Config) -> None:
    """Refuse weights of experts that add up to 1, which GGUF has no key for in these architectures."""
    if config.flag("norm_topk_prob"):
        config.refuse("weights of experts that add up to 1 (norm_topk_prob) are not supported for this architecture")


def _check(config: Config) -> None:
    check_all_layers_have_experts(config)
    refuse_normalized_weights(config)


FAMILY = Family(check=_check, sizes=read_sizes_with_experts, write=write)
