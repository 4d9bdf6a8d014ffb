"""The type of each tensor of one model, by a recipe.

The rules are those of llama.cpp: for matrices `llama-quantize` (`llama-quant.cpp`, llama_tensor_get_type), and for
what is no matrix its converter (`conversion/base.py`, prepare_tensors), so that one pass gives what its two give.
Two differences: an override of some layers changes nothing in the others (there it shifts the count of layers),
and what is never quantized becomes F32 whatever it was (there a file that has it as F16 keeps it so).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from converters.quant_mixes.mixes import QUANT_MIXES, LayerPosition, QuantMix
from converters.quant_mixes.overrides import Override, deciding_overrides
from converters.tensors import PlannedTensor, Source
from edgellm.errors import OptionError, UnsupportedModelError
from edgellm.fmt import printable
from kquants.ggml import NAMED_TYPES

ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""Architectures whose tensors these rules are known to fit."""

_SMALLER_BLOCKS = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
_LAYER = re.compile(r"blk\.([0-9]{1,6})\.")


def mix_name(given: str) -> str:
    """The name of a recipe as QUANT_MIXES has it, written in either case. Raises OptionError where there is none."""
    name = given.upper()
    if name not in QUANT_MIXES:
        raise OptionError(f'--type: there is no "{printable(given)}"; choose one of: {", ".join(QUANT_MIXES)}')
    return name


def assign_types(
    sources: Sequence[Source], mix: str, architecture: str, overrides: Sequence[tuple[str, str]] = ()
) -> list[PlannedTensor]:
    """The type of each tensor, in the order of `sources`, which must be all tensors of the model.

    `mix` is a name in QUANT_MIXES; `overrides` are (pattern, type) pairs, see `converters.quant_mixes.overrides`. The
    note of a tensor says why it does not get the recipe's type. Raises OptionError for a recipe or override that
    is impossible, UnsupportedModelError for an architecture that is not in ARCHITECTURES, and for experts.
    """
    mix = mix_name(mix)
    _refuse_unknown(sources, architecture)
    shape = ModelStructure.of(sources, architecture)
    decided = deciding_overrides([s.name for s in sources if _is_matrix(s)], overrides)
    return [_planned(source, QUANT_MIXES[mix], shape, decided.get(source.name)) for source in sources]


def _refuse_unknown(sources: Iterable[Source], architecture: str) -> None:
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise UnsupportedModelError(f"architecture {printable(architecture)}: this version quantizes only {known}")
    for source in sources:
        if len(source.shape) > 2:
            raise UnsupportedModelError(f"tensor {printable(source.name)}: models with experts are not supported yet")


@dataclass(frozen=True)
class ModelStructure:
    """What the rules need to know of a model: layers, query heads for each key-value head, a tied output.

    `small_attn_v` is true of models that llama.cpp calls 70B: there attn_v is so small that more bits cost nothing.
    """

    layers: int
    group: int
    tied: bool
    small_attn_v: bool

    @classmethod
    def of(cls, sources: Iterable[Source], architecture: str) -> Self:
        """Read from names and shapes; 0 layers and 0 heads where tensors are missing."""
        rows = {s.name: s.row_count for s in sources}
        layers = 1 + max((_layer_of(name) for name in rows), default=-1)
        queries, keys = rows.get("blk.0.attn_q.weight", 0), rows.get("blk.0.attn_k.weight", 0)
        is_70b = layers == 80 and (architecture == "qwen2" or (architecture == "llama" and queries != keys))
        return cls(layers, queries // max(keys, 1), "output.weight" not in rows, is_70b)


def _layer_of(name: str) -> int:
    """The number of the layer that a tensor belongs to, -1 for those outside."""
    found = _LAYER.match(name)
    return int(found[1]) if found else -1


def _planned(source: Source, mix: QuantMix, shape: ModelStructure, override: Override | None) -> PlannedTensor:
    if not _is_matrix(source):
        return PlannedTensor(source, NAMED_TYPES["F32"])
    asked = override.type if override else _type_by_mix(source.name, mix, shape)
    given = _fitting(asked, source.columns)
    notes = []
    if override:
        notes.append(f"{asked} by --tensor-type {printable(override.given)}")
    if given != asked:
        notes.append(f"rows of {source.columns} are no multiple of {NAMED_TYPES[asked].block}: {given} for {asked}")
    return PlannedTensor(source, NAMED_TYPES[given], "; ".join(notes))


def _is_matrix(source: Source) -> bool:
    """Is it quantized at all? Vectors and norms never are; a matrix of one row is a vector to ggml."""
    name = source.name
    return source.row_count > 1 and name.endswith("weight") and "_norm.weight" not in name


def _type_by_mix(name: str, mix: QuantMix, shape: ModelStructure) -> str:
    layer = LayerPosition(_layer_of(name), shape.layers, shape.group)
    kind = name.removesuffix(".weight").split(".")[-1] if layer.index >= 0 else ""
    if name == ("token_embd.weight" if shape.tied else "output.weight"):
        kind = "output"
    chosen = mix.type_of(kind, layer)
    if kind == "attn_v" and shape.small_attn_v and chosen in ("Q3_K", "Q4_K"):
        return "Q5_K"
    return chosen


def _fitting(wanted: str, columns: int) -> str:
    """`wanted`, or the type that llama.cpp puts in its place where blocks do not fill rows."""
    for name in (wanted, _SMALLER_BLOCKS.get(wanted, wanted)):
        if columns % NAMED_TYPES[name].block == 0:
            return name
    return "F16"
