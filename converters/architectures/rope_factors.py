"""Scaling of RoPE that GGUF holds as tensors: divisors of the frequencies."""

import math

import numpy as np
from numpy.typing import NDArray

from converters.architectures.config import Config
from converters.architectures.sources import computed
from converters.tensors import Source

Factors = NDArray[np.float32]

UNROTATED = 1e30
"""The divisor of a frequency that is to be 0."""


def llama3_factors(rope: Config, head_dim: int) -> Factors:
    """The divisors of the frequencies in Llama 3's scaling, float32 [head_dim / 2].

    The formula is that of rope_type "llama3" in Hugging Face transformers (modeling_rope_utils.py): a pair with more
    than `high_freq_factor` turns within the original context has divisor 1, one with fewer than `low_freq_factor` turns
    has divisor `factor`, and the others have one in between. Llama 4 has both limits at 1, and none in between.
    """
    factor, low = rope.number("factor", 8.0, least=1e-6), rope.number("low_freq_factor", 1.0)
    high, original = rope.number("high_freq_factor", 4.0), rope.integer("original_max_position_embeddings")
    if high < low:
        rope.fail(f"high_freq_factor {high:g} is below low_freq_factor {low:g}; correct it")
    single = np.float32
    # In float32, for the bits of llama.cpp's converter; only powers are rounded from float64, as float32 powers differ
    # between CPUs.
    exponents = np.arange(0, head_dim, 2, dtype=single) / single(head_dim)
    frequencies = single(1) / (rope.number("rope_theta", least=1.0) ** exponents.astype(np.float64)).astype(single)
    turns = single(original) / (single(2 * math.pi) / frequencies)
    kept = np.clip((turns - single(low)) / single(high - low), 0, 1) if high > low else (turns >= low).astype(single)
    between = single(1) / ((1 - kept) / single(factor) + kept)
    return np.where(kept > 0, between, single(factor))


def proportional_factors(head_dim: int, fraction: float) -> Factors:
    """The divisors of a RoPE that rotates the first `fraction` of all pairs, float32 [head_dim / 2] (Gemma 4)."""
    factors = np.full(head_dim // 2, UNROTATED, np.float32)
    factors[: int(head_dim * fraction / 2)] = 1
    return factors


def listed_factors(rope: Config, key: str, pairs: int) -> Source:
    """The tensor of LongRoPE's factors at `key` (`long_factor` or `short_factor`), float32 [pairs]."""
    factors = rope.numbers(key, least=1e-6)
    if len(factors) != pairs:
        rope.fail(f"{key} has {len(factors)} factors for {pairs} rotated pairs; correct it")
    return computed(f"rope_factors_{key.removesuffix('_factor')}.weight", np.array(factors, np.float32))
