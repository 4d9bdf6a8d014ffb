"""Phi-3 and Phi-4: LongRoPE, heads rotated in part, keys in an order of their own."""

from collections.abc import Callable
from math import log, sqrt

from converters.architectures.families.family import Family
from converters.architectures.families.gemma import ORDER
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.rope_factors import listed_factors
from converters.tensors import Source

_LONG = ("longrope", "su")
_ORIGINAL = "original_max_position_embeddings"


def _rotary(model: TextModel) -> int:
    """The values of a head that are rotated."""
    return int(model.rope.rotary_fraction * model.sizes.head_dim[0])


def write(keys: ArchitectureKeys, model: TextModel, magnitude: Callable[[TextModel], float]) -> None:
    """Add the keys of RoPE, and the window; `magnitude` gives LongRoPE's factor of cosine and sine."""
    keys.integer("rope.scaling.original_context_length", model.rope.full.integer(_ORIGINAL))
    keys.integer("rope.dimension_count", _rotary(model))
    if model.rope.kind in _LONG:
        keys.number("rope.scaling.attn_factor", magnitude(model))
    # 0 stands for no window: llama.cpp gives a file without the key the window of Phi-3.
    has_window = "sliding_window" in model.config
    keys.integer("attention.sliding_window", model.config.integer("sliding_window") if has_window else 0)


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    write(keys, model, _magnitude)


def _magnitude(model: TextModel) -> float:
    """The factor of cosine and sine in LongRoPE, as transformers computes it (modeling_rope_utils.py)."""
    rope = model.rope.full
    if "attention_factor" in rope:
        return rope.number("attention_factor", least=1e-6)
    original = rope.integer(_ORIGINAL)
    scale = model.sizes.context_length / original
    return sqrt(1 + log(scale) / log(original)) if scale > 1 and original > 1 else 1.0


def _sources(model: TextModel, sources: list[Source]) -> list[Source]:
    """The tensors after the factors of LongRoPE."""
    if model.rope.kind not in _LONG:
        return sources
    pairs = _rotary(model) // 2
    return [*(listed_factors(model.rope.full, key, pairs) for key in ("long_factor", "short_factor")), *sources]


FAMILY = Family(
    write=_write,
    leading=("phi3.rope.scaling.attn_factor",),
    order=(
        "context_length",
        "rope.scaling.original_context_length",
        "embedding_length",
        "feed_forward_length",
        "block_count",
        *ORDER[-2:],
        "attention.layer_norm_rms_epsilon",
        "rope.dimension_count",
        "rope.freq_base",
    ),
    sources=_sources,
    rope_kinds=("default", *_LONG),
    partial_rotary=True,
)
