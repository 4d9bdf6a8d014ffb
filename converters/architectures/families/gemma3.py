"""Gemma 3 and its text model inside of one that reads images."""

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.families.gemma import norms_plus_one
from converters.architectures.families.gemma2 import check_score_scale
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.windows import windowed_layers, write_window_pattern

_LAYERS_OF_27B, _EVERY = 62, 6


def _check(config: Config) -> None:
    check_score_scale(config, _LAYERS_OF_27B)
    refuse_score_cap(config)


def refuse_score_cap(config: Config) -> None:
    """Refuse a soft cap of scores, which these architectures do not have."""
    if config.number("attn_logit_softcapping", 0.0):
        config.refuse("attn_logit_softcapping is not supported for this architecture")


def write_caps_and_window(keys: ArchitectureKeys, model: TextModel) -> None:
    """Add the soft cap of the logits and the window."""
    config = model.config
    if cap := config.number("final_logit_softcapping", 0.0):
        keys.number("final_logit_softcapping", cap)
    if any(windowed_layers(config, _EVERY)):
        keys.integer("attention.sliding_window", config.integer("sliding_window"))


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    write_caps_and_window(keys, model)
    if any(windowed_layers(model.config, _EVERY)):
        write_window_pattern(keys, model, _EVERY)


FAMILY = Family(check=_check, write=_write, sources=norms_plus_one)
