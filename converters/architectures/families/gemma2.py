"""Gemma 2: soft caps, and a window in every second layer."""

from math import isclose

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.families.gemma import ORDER, norms_plus_one, usual_base
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.windows import write_window_pattern

_LAYERS_OF_27B = 46
_CAPS = ("attn_logit_softcapping", "final_logit_softcapping")


def check_score_scale(config: Config, layers_of_27b: int) -> None:
    """Refuse a `query_pre_attn_scalar` that GGUF cannot express: readers know it by the number of layers alone."""
    of_27b = config.integer("num_hidden_layers") == layers_of_27b
    implied = config.integer("hidden_size") // config.integer("num_attention_heads") if of_27b else None
    wanted = implied or config.integer("head_dim")
    given = config.number("query_pre_attn_scalar")
    if not isclose(given, wanted):
        config.refuse(f"query_pre_attn_scalar {given:g} is not supported: GGUF files imply {wanted}")


def _check(config: Config) -> None:
    check_score_scale(config, _LAYERS_OF_27B)
    for key in _CAPS:
        if key in config.nulls:
            config.refuse(f"Gemma 2 without {key} is not supported: GGUF files imply one")


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    for key in _CAPS:
        keys.number(key, model.config.number(key))
    keys.integer("attention.sliding_window", model.config.integer("sliding_window"))
    write_window_pattern(keys, model, every=2)


FAMILY = Family(
    check=_check,
    order=ORDER,
    omitted=usual_base,
    write=_write,
    sources=norms_plus_one,
    drops_tied_output=True,
)
