"""Granite: four multipliers."""

from collections.abc import Collection

from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel

_MULTIPLIERS = {
    "attention_multiplier": "attention.scale",
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
}
"""The keys of config.json, and GGUF's."""


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    for key, name in _MULTIPLIERS.items():
        keys.number(name, model.config.number(key, least=1e-9))


def _usual_head_dim(model: TextModel) -> Collection[str]:
    usual = model.sizes.head_dim[0] * model.sizes.heads == model.sizes.width
    return ("attention.key_length", "attention.value_length") if usual else ()


FAMILY = Family(write=_write, omitted=_usual_head_dim)
