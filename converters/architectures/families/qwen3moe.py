"""Qwen3 with experts in all layers."""

from converters.architectures.config import Config
from converters.architectures.experts import check_normalized, write_expert_widths
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import read_sizes_with_experts
from converters.architectures.windows import write_window


def check_all_layers_have_experts(config: Config) -> None:
    """Refuse feed-forwards in some layers, which GGUF files of Qwen's models cannot have."""
    if config.integer("decoder_sparse_step", 1) != 1 or config.numbers("mlp_only_layers"):
        config.refuse("layers without experts among others (decoder_sparse_step, mlp_only_layers) are not supported")


def _check(config: Config) -> None:
    check_all_layers_have_experts(config)
    check_normalized(config, default=False)


def write(keys: ArchitectureKeys, model: TextModel) -> None:
    """Add the widths of experts and the window."""
    write_expert_widths(keys, model)
    write_window(keys, model)


FAMILY = Family(check=_check, sizes=read_sizes_with_experts, write=write)
