"""The type of each tensor of one model, by a quantization mix.

The rules are llama.cpp's: for matrices those of `llama-quantize` (`llama-quant.cpp`, llama_tensor_get_type), for
vectors and norms those of its converter (`conversion/base.py`, prepare_tensors), so that one pass gives the result of
its two. Two differences: an override of some layers does not change others (in llama.cpp it shifts the layer count),
and tensors that are never quantized always become F32 (llama.cpp keeps F16 ones of a GGUF file).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from converters.quant_mixes.mixes import QUANT_MIXES, LayerPosition, QuantMix
from converters.quant_mixes.overrides import Override, deciding_overrides
from converters.tensors import PlannedTensor, Source
from edgellm.arch.architectures import ARCHITECTURES
from edgellm.errors import OptionError, UnsupportedModelError
from edgellm.fmt import printable
from kquants.ggml import NAMED_TYPES

_SMALLER_BLOCKS = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
_LAYER = re.compile(r"blk\.([0-9]{1,6})\.")


def mix_name(typed: str) -> str:
    """The key in QUANT_MIXES for a name in any case. Raises OptionError for an unknown one."""
    name = typed.upper()
    if name not in QUANT_MIXES:
        raise OptionError(f'--type: there is no "{printable(typed)}"; choose one of: {", ".join(QUANT_MIXES)}')
    return name


def assign_types(
    sources: Sequence[Source], mix: str, architecture: str, overrides: Sequence[tuple[str, str]] = ()
) -> list[PlannedTensor]:
    """Assign a type to each tensor of `sources`, which must be all tensors of the model; the order is kept.

    `mix` is a name in QUANT_MIXES; `overrides` are (pattern, type) pairs, see `converters.quant_mixes.overrides`. The
    note of a tensor gives the reason if it does not get the mix's type. Raises OptionError for an invalid mix or
    override, UnsupportedModelError for an architecture that edgellm does not run, and for experts.
    """
    mix = mix_name(mix)
    _refuse_unknown(sources, architecture)
    model = ModelStructure.of(sources, architecture)
    decided = deciding_overrides([s.name for s in sources if _is_matrix(s)], overrides)
    return [_planned(source, QUANT_MIXES[mix], model, decided.get(source.name)) for source in sources]


def _refuse_unknown(sources: Iterable[Source], architecture: str) -> None:
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise UnsupportedModelError(f"architecture {printable(architecture)}: this version quantizes only {known}")
    for source in sources:
        if len(source.shape) > 2:
            raise UnsupportedModelError(f"tensor {printable(source.name)}: models with experts are not supported yet")


@dataclass(frozen=True)
class ModelStructure:
    """Facts about a model that the rules use: layers, query heads per key-value head, tied embeddings.

    `small_attn_v` is True for models that llama.cpp calls 70B: their attn_v is so small that more bits cost little.
    """

    layers: int
    group: int
    tied: bool
    small_attn_v: bool

    @classmethod
    def of(cls, sources: Iterable[Source], architecture: str) -> Self:
        """Derive the facts from names and shapes; 0 layers and 0 heads if tensors are missing."""
        rows = {s.name: s.row_count for s in sources}
        layers = 1 + max((_layer_of(name) for name in rows), default=-1)
        queries, keys = rows.get("blk.0.attn_q.weight", 0), rows.get("blk.0.attn_k.weight", 0)
        # llama.cpp goes by the layers (llama-model.cpp, load_hparams); a llama of 80 without groups is its 65B.
        is_70b = layers == 80 and (architecture == "qwen2" or (architecture == "llama" and queries != keys))
        return cls(layers, queries // max(keys, 1), "output.weight" not in rows, is_70b)


def _layer_of(name: str) -> int:
    """The layer number of a tensor, -1 for one outside the layers."""
    found = _LAYER.match(name)
    return int(found[1]) if found else -1


def _planned(source: Source, mix: QuantMix, model: ModelStructure, override: Override | None) -> PlannedTensor:
    if not _is_matrix(source):
        return PlannedTensor(source, NAMED_TYPES["F32"])
    asked = override.type if override else _type_by_mix(source.name, mix, model)
    fitted = _fitting(asked, source.columns)
    notes = []
    if override:
        notes.append(f"{asked} by --tensor-type {printable(override.text)}")
    if fitted != asked:
        notes.append(f"rows of {source.columns} are no multiple of {NAMED_TYPES[asked].block}: {fitted} for {asked}")
    return PlannedTensor(source, NAMED_TYPES[fitted], "; ".join(notes))


def _is_matrix(source: Source) -> bool:
    """Whether a tensor may be quantized. Vectors and norms never are; ggml treats a matrix of one row as a vector."""
    name = source.name
    return source.row_count > 1 and name.endswith("weight") and "_norm.weight" not in name


def _type_by_mix(name: str, mix: QuantMix, model: ModelStructure) -> str:
    layer = LayerPosition(_layer_of(name), model.layers, model.group)
    role = name.removesuffix(".weight").split(".")[-1] if layer.index >= 0 else ""
    if name == ("token_embd.weight" if model.tied else "output.weight"):
        role = "output"
    chosen = mix.type_of(role, layer)
    if role == "attn_v" and model.small_attn_v and chosen in ("Q3_K", "Q4_K"):
        return "Q5_K"
    return chosen


def _fitting(wanted: str, columns: int) -> str:
    """`wanted`, or llama.cpp's fallback if the row length is no multiple of its block."""
    for name in (wanted, _SMALLER_BLOCKS.get(wanted, wanted)):
        if columns % NAMED_TYPES[name].block == 0:
            return name
    return "F16"
