"""Gemma 3n: widths and sparsity by layer, embeddings with fewer rows than the model has tokens."""

from dataclasses import replace
from math import inf
from statistics import NormalDist

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.families.gemma3 import write_caps_and_window
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import CheckpointSizes, layer_count, read_sizes
from converters.architectures.windows import windowed_layers
from edgellm.arch.per_layer_names import LAUREL_RANK, STREAMS

_EVERY = 5
_SPARSE_LAYERS, _SPARSITY = 10, 0.95
"""The default of transformers: the first layers use the largest 5 % of their activations."""


def _sizes(config: Config) -> CheckpointSizes:
    return replace(read_sizes(config), per_layer_width=config.integer("hidden_size_per_layer_input"))


def _check(config: Config) -> None:
    streams, active = config.integer("altup_num_inputs", STREAMS), config.integer("altup_active_idx", 0, least=0)
    if (streams, active) != (STREAMS, 0):
        config.refuse(f"stream {active} of {streams} is active (altup); only the first of {STREAMS} is supported")
    if config.integer("laurel_rank") != LAUREL_RANK:
        config.refuse(f"laurel_rank must be {LAUREL_RANK}; others are not supported")


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    config, sizes = model.config, model.sizes
    keys.integers("feed_forward_length", sizes.ffn)
    write_caps_and_window(keys, model)
    keys.integer("altup.active_idx", 0)
    keys.integer("altup.num_inputs", STREAMS)
    keys.integer("embedding_length_per_layer_input", sizes.per_layer_width)
    keys.integer("attention.shared_kv_layers", config.integer("num_kv_shared_layers", least=0))
    keys.numbers("activation_sparsity_scale", [sparsity_scale(each) for each in _sparsities(config)])
    keys.flags("attention.sliding_window_pattern", windowed_layers(config, _EVERY))


def sparsity_scale(sparsity: float) -> float:
    """Standard deviations above the mean that a part `sparsity` of normally distributed values stays below."""
    return NormalDist().inv_cdf(sparsity) if sparsity > 0 else -inf


def _sparsities(config: Config) -> list[float]:
    layers = layer_count(config)
    given = config.numbers("activation_sparsity_pattern") or [
        _SPARSITY if i < _SPARSE_LAYERS else 0.0 for i in range(layers)
    ]
    if len(given) < layers or not all(each < 1 for each in given):
        config.fail(f"activation_sparsity_pattern must have {layers} numbers below 1; correct it")
    return given[:layers]


FAMILY = Family(check=_check, sizes=_sizes, write=_write, padded=("token_embd", "per_layer_token_embd"))
