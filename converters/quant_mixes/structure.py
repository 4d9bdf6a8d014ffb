"""What the quantization mixes ask of a model, from the names and shapes of its tensors."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from converters.quant_mixes.matrix import LayerPosition, PlacedMatrix
from converters.quant_mixes.mixes import QuantMix
from converters.quant_mixes.unquantized import is_quantized
from converters.tensors import Source

_LAYER = re.compile(r"blk\.([0-9]{1,6})\.")
_VALUES = ("attn_v", "attn_qkv", "attn_kv_b")
"""The roles that the mixes call "attn_v": matrices of values, alone or with others."""
_EMBEDDINGS = ("token_embd.weight", "per_layer_token_embd.weight")
_EXPERTS = re.compile(r"_(exps|shexp)$")
_70B = ("llama", "qwen2", "deci", "olmo")


@dataclass(frozen=True)
class ModelStructure:
    """Facts about a model that the rules use: layers, query heads per key-value head, tied embeddings, experts.

    `numbers` has by name the number of a matrix among those of its role, for roles that some layers may lack: attn_v,
    of which there are `values`, and ffn_down in dense models. `small_attn_v` is True for models that llama.cpp calls
    70B: their attn_v is so small that more bits cost little.
    """

    layers: int
    group: int
    tied: bool
    numbers: Mapping[str, int]
    values: int
    small_attn_v: bool
    experts: int

    @classmethod
    def of(cls, sources: Iterable[Source], architecture: str) -> Self:
        """Derive the facts from names and shapes; 0 layers and 0 heads if tensors are missing."""
        by_name = {source.name: source for source in sources}
        layers = 1 + max((_layer_of(name) for name in by_name), default=-1)
        experts = max((s.shape[0] for name, s in by_name.items() if name.endswith("_exps.weight")), default=0)
        values = _numbered(by_name, "attn_v")
        queries, keys = _projections(by_name)
        # llama.cpp goes by the layers (load_arch_hparams); a llama of 80 without groups is its 65B.
        is_70b = layers == 80 and architecture in _70B and (architecture != "llama" or queries != keys)
        return cls(
            layers=layers,
            group=queries // max(keys, 1),
            tied="output.weight" not in by_name,
            numbers=values | (_numbered(by_name, "ffn_down") if experts < 2 else {}),
            values=len(values),
            small_attn_v=is_70b,
            experts=experts,
        )

    def type_by_mix(self, name: str, mix: QuantMix, has_imatrix: bool = False) -> str:
        """The type of a matrix, without regard to the length of its rows."""
        role = _role_of(name)
        if name == "output.weight" or (self.tied and name in _EMBEDDINGS):
            role = "output"
        place = LayerPosition(self.numbers.get(name, _layer_of(name)), self._count(role), self.group)
        is_stack = name.endswith("_exps.weight")
        chosen = mix.type_of(PlacedMatrix(role, place, self.experts, is_stack, has_imatrix))
        if role == "attn_v" and self.small_attn_v and chosen in ("Q3_K", "Q4_K"):
            return "Q5_K"
        return chosen

    def _count(self, role: str) -> int:
        return self.values if role == "attn_v" else self.layers


def _projections(tensors: Mapping[str, Source]) -> tuple[int, int]:
    """Rows of the projections of q and of k in the first layer; those of a fused matrix follow from attn_output.

    Where the first layers have gated DeltaNet, those of the first with attention, of whose q half the rows are a gate.
    """
    has_delta_net = "blk.0.ssm_conv1d.weight" in tensors and "blk.0.attn_qkv.weight" in tensors
    of_attention = (_layer_of(name) for name in tensors if name.endswith(".attn_output.weight"))
    layer = min(of_attention, default=0) if has_delta_net else 0

    def rows(stem: str) -> int:
        found = tensors.get(f"blk.{layer}.{stem}.weight")
        return found.row_count if found else 0

    output = tensors.get(f"blk.{layer}.attn_output.weight")
    queries = (0 if has_delta_net else rows("attn_q")) or (output.columns if output else 0)
    return queries, rows("attn_k") or max(0, rows("attn_qkv") - queries) // 2


def _numbered(tensors: Mapping[str, Source], role: str) -> dict[str, int]:
    """The number of each matrix of a role among those of all layers."""
    names = (name for name, source in tensors.items() if is_quantized(source) and _role_of(name) == role)
    return {name: i for i, name in enumerate(sorted(names, key=lambda name: (_layer_of(name), name)))}


def _layer_of(name: str) -> int:
    """The layer number of a tensor, -1 for one outside the layers."""
    found = _LAYER.match(name)
    return int(found[1]) if found else -1


def _role_of(name: str) -> str:
    """The role of a matrix in its layer, that of a dense one for those of experts; an empty one outside the layers."""
    if _layer_of(name) < 0:
        return ""
    stem = _EXPERTS.sub("", name.removesuffix(".weight").split(".")[-1])
    return "attn_v" if stem in _VALUES else stem
