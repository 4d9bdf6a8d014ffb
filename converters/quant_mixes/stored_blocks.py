"""Matrices that a checkpoint holds in blocks of GGUF, kept so, with the factors that NVFP4 has besides."""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from converters.quant_mixes.overrides import deciding_overrides
from converters.quant_mixes.unquantized import is_quantized
from converters.tensors import ExactRows, Source, StoredBlocks
from edgellm.errors import EdgeLLMWarning
from edgellm.fmt import printable

_WITH_FACTORS = re.compile(
    r"output|blk\.\d+\.(attn_(q|k|v|qkv|gate|output)|ffn_(gate|down|up)(_shexp|_exps)?|ssm_(in|out|alpha|beta))"
)
"""The stems of weights that may have factors in a tensor `STEM.scale` (llama.cpp: `llama_model_base::load_tensors`)."""


_APPLIED_BY_LLAMA_CPP = (
    *("cohere2", "cohere2moe", "gemma4", "llama", "mellum", "mistral3", "nemotron_h", "nemotron_h_moe"),
    *("qwen3", "qwen35", "qwen35moe", "qwen3moe"),
)
"""Architectures in which llama.cpp multiplies by the factors of all matrices (those of src/models that have `ffn_up_s`
or `ffn_up_exps_s`, and all others that they need)."""


def with_stored_blocks(
    sources: Sequence[Source], architecture: str, overrides: Sequence[tuple[str, str]]
) -> list[Source]:
    """The sources; matrices whose blocks the file keeps are these blocks, and their factors follow each.

    Those for which `overrides` (see `converters.quant_mixes.overrides`) name another type stay floats. An
    EdgeLLMWarning tells of factors that llama.cpp does not multiply by. Raises OptionError for an invalid override.
    """
    decided = deciding_overrides([s.name for s in sources if is_quantized(s)], overrides)
    found = list(_kept(sources, {name: override.type for name, override in decided.items()}))
    if len(found) > len(sources) and architecture not in _APPLIED_BY_LLAMA_CPP:
        what = f"llama.cpp does not multiply by the factors of NVFP4 matrices in {printable(architecture)} models"
        advice = "edgellm reads the new file; for llama.cpp give a type, such as --tensor-type .=Q6_K"
        warnings.warn(f"{what}; {advice}", EdgeLLMWarning, stacklevel=2)
    return found


def _kept(sources: Iterable[Source], types: dict[str, str]) -> Iterator[Source]:
    for source in sources:
        blocks = source.rows.stored if isinstance(source.rows, ExactRows) else None
        if blocks is None or not _is_kept(source, blocks) or types.get(source.name, blocks.type) != blocks.type:
            yield source
            continue
        yield replace(source, type=blocks.type, rows=blocks.rows)
        if blocks.factors:
            yield _factors(f"{source.name.removesuffix('.weight')}.scale", blocks.factors)


def _is_kept(source: Source, blocks: StoredBlocks) -> bool:
    """Whether a file may hold these blocks in place of a source, and their factors, if there are any."""
    if not is_quantized(source):
        return False
    has_place = _WITH_FACTORS.fullmatch(source.name.removesuffix(".weight")) is not None
    return not blocks.factors or (has_place and len(blocks.factors) == prod(source.shape[:-2]))


def _factors(name: str, factors: tuple[float, ...]) -> Source:
    data = np.array([factors], "<f4").view(np.uint8)
    return Source(name, (len(factors),), "F32", lambda first, last: data[first:last])
