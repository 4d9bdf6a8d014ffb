"""Muse Glimmer: norms of layers are stored less 1; the scale of q is the weight of its norm in GGUF."""

import numpy as np

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sources import computed, plus_one
from converters.architectures.windows import windowed_layers
from converters.tensors import Source

_OFFSET_NORMS = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
_POST_NORM_EPS = 1e-8


def _check(config: Config) -> None:
    if config.number("post_norm_eps", _POST_NORM_EPS) != _POST_NORM_EPS:
        config.refuse(f"post_norm_eps other than {_POST_NORM_EPS:g} is not supported: GGUF files imply it")
    bases = config.numbers("layer_rope_theta")
    windowed = windowed_layers(config, every=4)
    if bases and [base > 0 for base in bases[: len(windowed)]] != windowed:
        config.refuse("layer_rope_theta other than 0 in layers without a window, and only there, is not supported")


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    config = model.config
    keys.number("final_logit_softcapping", config.number("final_logit_softcapping"))
    keys.number("logit_scale", config.number("output_multiplier", least=1e-9))
    keys.integer("attention.sliding_window", config.integer("sliding_window"))
    keys.flags("attention.sliding_window_pattern", windowed_layers(config, every=4))


def _sources(model: TextModel, sources: list[Source]) -> list[Source]:
    """The tensors with 1 added to norms of layers, and with norms of q and k before the matrix of q."""
    ones = np.ones(model.sizes.head_dim[0], np.float32)
    scale = np.float32(model.config.number("qk_scale_factor"))
    found: list[Source] = []
    for source in sources:
        layer, _, rest = source.name.removeprefix("blk.").partition(".")
        if rest == "attn_q.weight":
            found.append(computed(f"blk.{layer}.attn_q_norm.weight", ones * scale))
            found.append(computed(f"blk.{layer}.attn_k_norm.weight", ones))
        found.append(plus_one(source) if rest.removesuffix(".weight") in _OFFSET_NORMS else source)
    return found


FAMILY = Family(check=_check, write=_write, sources=_sources)
