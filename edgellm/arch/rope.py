"""RoPE frequencies, from the metadata of a GGUF file."""

import math

import numpy as np
from numpy.typing import NDArray

from edgellm.arch.description import Rope, RopeType
from edgellm.arch.refuse import refuse
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile

Frequencies = NDArray[np.float64]


def read_rope(file: GGUFFile, head_dim: int, rope_type: RopeType) -> Rope:
    """RoPE over the first `rope.dimension_count` dimensions of each head, by default all.

    Plain frequencies are base^(-2i / dims) (RoFormer, arXiv 2104.09864). They are divided by the tensor
    `rope_freqs.weight`, which holds Llama 3's scaling. Linear scaling divides all frequencies by a factor; YaRN
    divides low frequencies only. Raises ModelFileError and UnsupportedModelError.
    """
    prefix = f"{file.architecture}.rope"
    base = _number(file, f"{prefix}.freq_base", 10000.0)
    dims = file.get_int(f"{prefix}.dimension_count", head_dim)
    if not 0 < dims <= head_dim:
        file.fail(f"key {prefix}.dimension_count is {dims}, but a head has {head_dim} dimensions")
    if dims < 2 or dims % 2 or not base > 1.0:
        file.fail(f"rope over {dims} dimensions with base {base} is impossible; get another conversion")
    frequencies = base ** (-np.arange(0, dims, 2) / dims) / _factors(file, dims // 2)
    magnitude = _number(file, f"{prefix}.scaling.attn_factor", 1.0)
    # A factor without a type means linear; old files have one key for that alone. 0 stands for "no scaling".
    kind = file.get_str(f"{prefix}.scaling.type", "linear")
    old = _number(file, f"{prefix}.scale_linear", 1.0, off=0.0)
    factor = _number(file, f"{prefix}.scaling.factor", old, off=0.0) or 1.0
    if kind == "yarn":
        kept = _kept_by_yarn(file, base, dims)
        return Rope(frequencies * (kept + (1 - kept) / factor), magnitude * _yarn_magnitude(factor), rope_type)
    if kind == "linear":
        return Rope(frequencies / factor, magnitude, rope_type)
    if kind != "none":
        refuse(file, f"rope scaling {printable(kind)} is not supported, only none, linear and yarn are")
    return Rope(frequencies, magnitude, rope_type)


def _number(file: GGUFFile, key: str, default: float, off: float | None = None) -> float:
    """The number at a key, which must be within 1e-9 … 1e15, or `off`."""
    value = file.get_float(key, default)
    if value != off and not 1e-9 <= value <= 1e15:
        file.fail(f"key {key} is {value}, outside 1e-9 … 1e15; get another conversion of the model")
    return value


def _factors(file: GGUFFile, pairs: int) -> Frequencies | float:
    tensor = file.tensors.get("rope_freqs.weight")
    if tensor is None:
        return 1.0
    if tensor.type.name != "F32" or tensor.shape != (pairs,):
        file.fail(f"tensor rope_freqs.weight must be {pairs} F32 values; get another conversion of the model")
    factors = tensor.data.view("<f4").astype(np.float64)
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        file.fail("tensor rope_freqs.weight has values that are not positive; get another conversion")
    return factors


def _yarn_magnitude(factor: float) -> float:
    return 1.0 + 0.1 * math.log(factor) if factor > 1 else 1.0


def _kept_by_yarn(file: GGUFFile, base: float, dims: int) -> Frequencies:
    """How much of each frequency YaRN keeps, 1 … 0 (arXiv 2309.00071, section 3.2).

    Pairs that make more than `beta_fast` turns within the original context keep their frequency; that of pairs with
    fewer than `beta_slow` turns is divided by the factor; between these limits is a linear ramp over whole pairs. A
    file may set both. llama.cpp 0.3.36 always takes 32 and 1 for these architectures, so its logits then differ.
    """
    prefix = f"{file.architecture}.rope.scaling"
    original = file.get_int(f"{prefix}.original_context_length", file.get_int(f"{file.architecture}.context_length"))
    fast = _number(file, f"{prefix}.yarn_beta_fast", 32.0)
    slow = _number(file, f"{prefix}.yarn_beta_slow", 1.0)
    if original < 1:
        file.fail(f"key {prefix}.original_context_length is {original}, below 1; get another conversion of the model")

    def pair(turns: float) -> float:
        return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(0, math.floor(pair(fast))), min(dims - 1, math.ceil(pair(slow)))
    return 1 - np.clip((np.arange(dims // 2) - low) / max(0.001, high - low), 0, 1)
