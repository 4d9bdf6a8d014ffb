"""gpt-oss: windows in every second layer, experts in all. MXFP4 experts keep their blocks, and come first."""

from converters.architectures.config import Config
from converters.architectures.experts import write_expert_widths
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import read_sizes_with_experts
from converters.architectures.windows import write_window_pattern
from converters.tensors import Source
from edgellm.arch.architectures.gpt_oss import ALPHA, LIMIT, WINDOW_PATTERN


def _check(config: Config) -> None:
    """Refuse other numbers in the activation, for which GGUF has no keys."""
    for key, value in (("swiglu_limit", LIMIT), ("swiglu_alpha", ALPHA)):
        if (given := config.number(key, value)) != value:
            config.refuse(f"{key} {given:g} is not supported, only {value:g}, as GGUF has no key for it")


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    if "sliding_window" not in model.config.nulls:
        keys.integer("attention.sliding_window", model.config.integer("sliding_window"))
    write_expert_widths(keys, model)
    write_window_pattern(keys, model, WINDOW_PATTERN)


def _sources(model: TextModel, sources: list[Source]) -> list[Source]:
    """The tensors in the order of llama.cpp's converter."""
    return sorted(sources, key=lambda source: source.type != "MXFP4")


FAMILY = Family(
    check=_check, sizes=read_sizes_with_experts, write=_write, sources=_sources, rope_kinds=("default", "yarn")
)
