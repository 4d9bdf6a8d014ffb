"""Mistral 3: YaRN with mscale, and a factor of queries that grows with the position."""

from collections.abc import Collection

from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.rope import yarn_magnitude
from converters.architectures.windows import write_window


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    rope = model.rope.full
    if _has_log_multiplier(model) or (model.rope.kind == "yarn" and rope.number("mscale_all_dim", 1.0) == 0):
        keys.number("rope.scaling.yarn_log_multiplier", rope.number("mscale_all_dim"))
    if "llama_4_scaling_beta" in rope:
        keys.number("attention.temperature_scale", rope.number("llama_4_scaling_beta"))
    write_window(keys, model)


def _has_log_multiplier(model: TextModel) -> bool:
    """Whether `mscale_all_dim` is to be in the file: readers take 1 for `mscale` then."""
    rope = model.rope.full
    if model.rope.kind != "yarn" or not rope.number("mscale_all_dim", 0.0) or not rope.number("mscale", 0.0):
        return False
    if rope.number("mscale") != 1.0 or "attention_factor" in rope:
        model.config.refuse(
            f"yarn with the magnitude {yarn_magnitude(rope):g} is not supported: GGUF has mscale 1 only"
        )
    return True


def _omitted(model: TextModel) -> Collection[str]:
    return ("rope.scaling.attn_factor",) if _has_log_multiplier(model) else ()


FAMILY = Family(write=_write, omitted=_omitted)
