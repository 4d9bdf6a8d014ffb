"""The quantization mixes that `--type` offers, as a table.

Each gives most matrices one type, and more bits to those whose error costs the most quality: output, attn_v,
ffn_down. They are llama.cpp's (`llama-quant.cpp`, llama_tensor_get_type_impl).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from edgellm.gguf.filetypes import FILE_TYPES
from kquants import FLOAT_FORMATS


@dataclass(frozen=True)
class LayerPosition:
    """The position of a matrix among those of its role: `index` of `count`, with `group` heads per key-value head."""

    index: int
    count: int
    group: int


class LayerSplit(NamedTuple):
    """The type `better` in the layers for which `where` is True, `rest` in the others."""

    better: str
    where: Callable[[LayerPosition], bool]
    rest: str

    def type_in(self, layer: LayerPosition) -> str:
        """The type of a matrix in this layer."""
        return self.better if self.where(layer) else self.rest


TypesByRole: TypeAlias = dict[str, str | LayerSplit]


@dataclass(frozen=True)
class QuantMix:
    """`type` is the type of a matrix unless `by_role` names its role, such as "attn_v" for "blk.0.attn_v.weight".

    The role "attn_v" also means attn_qkv, "ffn_down" the matrices of experts, and "output" the embeddings in a model
    without output.weight. `about` is a line of help.
    """

    name: str
    type: str
    about: str
    by_role: TypesByRole = field(default_factory=dict)

    @property
    def file_type(self) -> int:
        """The value of `general.file_type`."""
        return _FILE_TYPE_NUMBERS[self.name]

    def type_of(self, role: str, layer: LayerPosition, experts: int) -> str:
        """The type for a matrix of this role; `layer` and the number of `experts` are used for roles inside layers."""
        types = self.by_role | _WITH_8_EXPERTS.get(self.name, {}) if experts == 8 else self.by_role
        chosen = types.get(role, self.type)
        return chosen.type_in(layer) if isinstance(chosen, LayerSplit) else chosen


def _spread(layer: LayerPosition) -> bool:
    """The first and the last eighth of the layers, and every third layer between."""
    first, last = layer.count // 8, 7 * layer.count // 8
    return layer.index < first or layer.index >= last or (layer.index - first) % 3 == 2


def _first(n: int) -> Callable[[LayerPosition], bool]:
    return lambda layer: layer.index < n


def _first_part(parts: int) -> Callable[[LayerPosition], bool]:
    return lambda layer: layer.index < layer.count // parts


def _has_small_attn_v(layer: LayerPosition) -> bool:
    """Four or more query heads share a key-value head, so attn_v is small compared with attn_q."""
    return layer.group >= 4


_Q2_K: TypesByRole = {
    "attn_v": LayerSplit("Q4_K", _has_small_attn_v, "Q3_K"),
    "attn_output": "Q3_K",
    "ffn_down": "Q3_K",
}
_Q3_K_M: TypesByRole = {
    "attn_v": LayerSplit("Q5_K", _first(2), "Q4_K"),
    "attn_output": "Q4_K",
    "ffn_down": LayerSplit("Q5_K", _first_part(16), "Q4_K"),
}
_Q4_K_S: TypesByRole = {
    "attn_v": LayerSplit("Q5_K", _first(4), "Q4_K"),
    "ffn_down": LayerSplit("Q5_K", _first_part(8), "Q4_K"),
}
_Q4_K_M: TypesByRole = dict.fromkeys(("attn_v", "ffn_down"), LayerSplit("Q6_K", _spread, "Q4_K"))
_Q5_K_M: TypesByRole = dict.fromkeys(("attn_v", "ffn_down"), LayerSplit("Q6_K", _spread, "Q5_K"))
_OUTPUT: TypesByRole = {"output": "Q6_K"}

_MIXES = (
    QuantMix("Q2_K", "Q2_K", "3.2 bits per weight: for a model that fits no other way", _OUTPUT | _Q2_K),
    QuantMix("Q3_K_M", "Q3_K", "4.0 bits per weight: small, with a loss that shows", _OUTPUT | _Q3_K_M),
    QuantMix("Q4_0", "Q4_0", "4.6 bits per weight: the older format, for programs that know no other", _OUTPUT),
    QuantMix("Q4_K_S", "Q4_K", "4.7 bits per weight: a little smaller than Q4_K_M", _OUTPUT | _Q4_K_S),
    QuantMix("Q4_K_M", "Q4_K", "4.9 bits per weight: the usual choice", _OUTPUT | _Q4_K_M),
    QuantMix("Q5_K_S", "Q5_K", "5.6 bits per weight: a little smaller than Q5_K_M", _OUTPUT),
    QuantMix("Q5_K_M", "Q5_K", "5.7 bits per weight: nearer to the original, and slower", _OUTPUT | _Q5_K_M),
    QuantMix("Q6_K", "Q6_K", "6.6 bits per weight: hard to tell from the original"),
    QuantMix("Q8_0", "Q8_0", "8.5 bits per weight: next to no loss"),
    QuantMix("F16", "F16", "16 bits per weight: to quantize from later"),
    QuantMix("BF16", "BF16", "16 bits per weight: what most checkpoints hold, unchanged"),
)
_KV_AS_Q8_0: TypesByRole = {"attn_k": "Q8_0", "attn_v": "Q8_0"}
_WITH_8_EXPERTS: dict[str, TypesByRole] = {
    **{mix.name: _KV_AS_Q8_0 for mix in _MIXES if mix.type not in FLOAT_FORMATS},
    **{name: _KV_AS_Q8_0 | {"attn_output": "Q5_K"} for name in ("Q2_K", "Q3_K_M", "Q4_K_S", "Q4_K_M")},
}
"""Types by role in models with as many experts as Mixtral: attention is a small part of these. By name of the mix."""
_FILE_TYPE_NUMBERS = {name: number for number, name in FILE_TYPES.items()}

QUANT_MIXES: dict[str, QuantMix] = {mix.name: mix for mix in _MIXES}
"""The mixes by name, smallest file first. The bits per weight in their help are those of Llama 3.1 8B."""
