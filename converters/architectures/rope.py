"""RoPE, from config.json to GGUF keys and the tensor `rope_freqs.weight`."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from converters.architectures.config import Config
from edgellm.arch.description import ModelSizes
from edgellm.fmt import printable

if TYPE_CHECKING:
    import gguf

# "dynamic" changes nothing up to the context length of config.json.
_PLAIN = ("default", "dynamic", "llama3")


def rope_config(config: Config, sizes: ModelSizes) -> Config:
    """The RoPE parameters of config.json, with the keys that transformers 5 has in `rope_parameters`.

    Older versions have `rope_scaling` with `rope_theta` beside it, and `type` in place of `rope_type`. Raises
    ModelFileError, and UnsupportedModelError for a RoPE that GGUF or edgellm does not have.
    """
    given = dict(config.section("rope_scaling") or config.section("rope_parameters"))
    given.setdefault("rope_type", given.get("type", "default"))
    given.setdefault("rope_theta", config.number("rope_theta", 10000.0))
    given.setdefault("original_max_position_embeddings", sizes.context_length)
    if "original_max_position_embeddings" in config:
        given["original_max_position_embeddings"] = config.integer("original_max_position_embeddings")
    rope = Config(config.path, given)
    _check_supported(config, rope)
    return rope


def _check_supported(config: Config, rope: Config) -> None:
    kind = rope.word("rope_type", "default")
    if kind not in (*_PLAIN, "linear", "yarn"):
        config.refuse(f"rope scaling {printable(kind)} is not supported, only {', '.join(_PLAIN)}, linear and yarn are")
    if "full_attention" in rope or "sliding_attention" in rope:
        config.refuse("rotary positions that differ from layer to layer are not supported")
    if any(c.number("partial_rotary_factor", 1.0) != 1.0 for c in (config, rope)):
        config.refuse("heads that are rotated in part (partial_rotary_factor) are not supported")
    if "mscale" in rope or "mscale_all_dim" in rope or not rope.flag("truncate", default=True):
        config.refuse("yarn with mscale, mscale_all_dim or without truncate is not supported")


def write_rope(writer: "gguf.GGUFWriter", rope: Config) -> None:
    """Add the keys of the scaling and of the base. Llama 3's scaling is a tensor: see `rope_factors`."""
    import gguf

    kind = rope.word("rope_type", "default")
    if kind in ("linear", "yarn"):
        factor = rope.number("factor", least=1e-6)
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(factor)
        if kind == "yarn":
            _write_yarn(writer, rope, factor)
    writer.add_rope_freq_base(rope.number("rope_theta", least=1.0))


def _write_yarn(writer: "gguf.GGUFWriter", rope: Config, factor: float) -> None:
    writer.add_rope_scaling_orig_ctx_len(rope.integer("original_max_position_embeddings"))
    if "attention_factor" in rope:
        magnitude = rope.number("attention_factor", least=1e-6)
        writer.add_rope_scaling_yarn_attn_factor(magnitude)
        # For these architectures llama.cpp does not read that key, but multiplies YaRN's magnitude by this one.
        writer.add_rope_scaling_attn_factors(magnitude / (1 + 0.1 * math.log(max(factor, 1.0))))
    if "beta_fast" in rope:
        writer.add_rope_scaling_yarn_beta_fast(rope.number("beta_fast"))
    if "beta_slow" in rope:
        writer.add_rope_scaling_yarn_beta_slow(rope.number("beta_slow"))


def rope_factors(rope: Config, sizes: ModelSizes) -> NDArray[np.float32] | None:
    """The divisors of the frequencies in Llama 3's scaling, float32 [head_dim / 2]; None for any other scaling.

    The formula is that of rope_type "llama3" in Hugging Face transformers (modeling_rope_utils.py): a pair with more
    than `high_freq_factor` turns within the original context has divisor 1, one with fewer than `low_freq_factor` turns
    has divisor `factor`, and the others have one in between.
    """
    if rope.word("rope_type", "default") != "llama3":
        return None
    factor, low = rope.number("factor", 8.0, least=1e-6), rope.number("low_freq_factor", 1.0)
    high, original = rope.number("high_freq_factor", 4.0), rope.integer("original_max_position_embeddings")
    if not high > low:
        rope.fail(f"high_freq_factor {high:g} is not above low_freq_factor {low:g}; correct it")
    single = np.float32
    # In float32, for the bits of llama.cpp's converter; only powers are rounded from float64, as float32 powers differ
    # between CPUs.
    exponents = np.arange(0, sizes.head_dim, 2, dtype=single) / single(sizes.head_dim)
    frequencies = single(1) / (rope.number("rope_theta", least=1.0) ** exponents.astype(np.float64)).astype(single)
    turns = single(original) / (single(2 * math.pi) / frequencies)
    kept = np.clip((turns - single(low)) / single(high - low), 0, 1)
    between = single(1) / ((1 - kept) / single(factor) + kept)
    return np.where(kept > 0, between, single(factor))
