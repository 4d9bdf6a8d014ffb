"""The quantization mixes that `--type` offers, as a table.

Each gives most matrices one type, and more bits to those whose error costs the most quality: output, attn_v,
ffn_down. They are llama.cpp's (`llama-quant.cpp`, llama_tensor_get_type_impl).
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from converters.quant_mixes.matrix import LayerSplit, PlacedMatrix, first, first_part, has_small_attn_v, spread
from edgellm.gguf.filetypes import FILE_TYPES
from kquants import FLOAT_FORMATS

TypesByRole: TypeAlias = dict[str, str | LayerSplit]

_OUTSIDE = ""
"""The role of matrices outside the layers."""


@dataclass(frozen=True)
class QuantMix:
    """`type` is the type of a matrix unless `by_role` names its role, such as "attn_v" for "blk.0.attn_v.weight".

    The role "attn_v" also means attn_qkv, "ffn_down" the matrices of experts, and "output" the embeddings in a model
    without output.weight. `about` is a line of help. In a model with experts, matrices that are not theirs get the type
    `beside_experts` unless that is empty.
    """

    name: str
    type: str
    about: str
    by_role: TypesByRole = field(default_factory=dict)
    beside_experts: str = ""

    @property
    def file_type(self) -> int:
        """The value of `general.file_type`."""
        return _FILE_TYPE_NUMBERS["MXFP4_MOE" if self.name == "MXFP4" else self.name]

    def type_of(self, matrix: PlacedMatrix) -> str:
        """The type for a matrix of a model."""
        if self.beside_experts and matrix.experts and not matrix.is_stack:
            return self.beside_experts
        types = self.by_role | (_WITH_8_EXPERTS.get(self.name, {}) if matrix.experts == 8 else {})
        types |= _WITH_IMATRIX.get(self.name, {}) if matrix.has_imatrix else {}
        chosen = types.get(matrix.role, self.type)
        return chosen.type_in(matrix.layer) if isinstance(chosen, LayerSplit) else chosen


_Q2_K_S: TypesByRole = {
    "attn_v": LayerSplit("Q4_K", has_small_attn_v, "Q2_K"),
    "ffn_down": LayerSplit("Q4_K", first_part(8), "Q2_K"),
}
_Q2_K: TypesByRole = {
    "attn_v": LayerSplit("Q4_K", has_small_attn_v, "Q3_K"),
    "attn_output": "Q3_K",
    "ffn_down": "Q3_K",
}
_Q3_K_M: TypesByRole = {
    "attn_v": LayerSplit("Q5_K", first(2), "Q4_K"),
    "attn_output": "Q4_K",
    "ffn_down": LayerSplit("Q5_K", first_part(16), "Q4_K"),
}
_IQ3_M: TypesByRole = {
    "attn_v": "Q4_K",
    "attn_output": "Q4_K",
    "ffn_down": LayerSplit("Q4_K", first_part(8), "IQ3_S"),
}
_Q3_K_L: TypesByRole = dict.fromkeys(("attn_v", "attn_output", "ffn_down"), "Q5_K")
_IQ4_XS: TypesByRole = {
    "attn_v": LayerSplit("Q5_K", has_small_attn_v, "IQ4_XS"),
    "ffn_down": LayerSplit("Q5_K", first_part(8), "IQ4_XS"),
}
_Q4_K_S: TypesByRole = {
    "attn_v": LayerSplit("Q5_K", first(4), "Q4_K"),
    "ffn_down": LayerSplit("Q5_K", first_part(8), "Q4_K"),
}
_Q4_K_M: TypesByRole = dict.fromkeys(("attn_v", "ffn_down"), LayerSplit("Q6_K", spread, "Q4_K"))
_Q5_K_M: TypesByRole = dict.fromkeys(("attn_v", "ffn_down"), LayerSplit("Q6_K", spread, "Q5_K"))
_OUTPUT: TypesByRole = {"output": "Q6_K"}
_MXFP4: TypesByRole = {"output": "Q8_0", _OUTSIDE: "Q8_0"}

_MIXES = (
    QuantMix("Q2_K_S", "Q2_K", "3.0 bits per weight: the smallest, with an importance matrix", _OUTPUT | _Q2_K_S),
    QuantMix("Q2_K", "Q2_K", "3.2 bits per weight: for a model that fits no other way", _OUTPUT | _Q2_K),
    QuantMix("IQ3_M", "IQ3_S", "3.8 bits per weight: a little smaller than Q3_K_M", _OUTPUT | _IQ3_M),
    QuantMix("Q3_K_M", "Q3_K", "4.0 bits per weight: small, with a loss that shows", _OUTPUT | _Q3_K_M),
    QuantMix("Q3_K_L", "Q3_K", "4.3 bits per weight: a little larger than Q3_K_M", _OUTPUT | _Q3_K_L),
    QuantMix("IQ4_XS", "IQ4_XS", "4.5 bits per weight: a tenth smaller than Q4_K_M, little worse", _OUTPUT | _IQ4_XS),
    QuantMix("Q4_0", "Q4_0", "4.6 bits per weight: the older format, for programs that know no other", _OUTPUT),
    QuantMix("Q4_K_S", "Q4_K", "4.7 bits per weight: a little smaller than Q4_K_M", _OUTPUT | _Q4_K_S),
    QuantMix("MXFP4", "MXFP4", "4.8 bits per weight: 4-bit floats; of experts alone, if any", _MXFP4, "Q8_0"),
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
    **{name: _KV_AS_Q8_0 | {"attn_output": "Q5_K"} for name in ("Q2_K", "Q3_K_M", "IQ4_XS", "Q4_K_S", "Q4_K_M")},
    "IQ3_M": _KV_AS_Q8_0 | {"attn_output": "Q5_K", "ffn_down": LayerSplit("Q4_K", spread, "IQ3_S")},
    "Q3_K_L": _KV_AS_Q8_0 | {"attn_output": "Q3_K"},
}
"""Types by role in models with as many experts as Mixtral: attention is a small part of these. By name of the mix."""
_WITH_IMATRIX: dict[str, TypesByRole] = {
    "IQ4_XS": {"ffn_down": "IQ4_XS"},
    "Q4_0": {"ffn_down": LayerSplit("Q4_1", first_part(8), "Q4_0")},
}
"""Those that differ if an importance matrix is given."""
_FILE_TYPE_NUMBERS = {name: number for number, name in FILE_TYPES.items()}

QUANT_MIXES: dict[str, QuantMix] = {mix.name: mix for mix in _MIXES}
"""The mixes by name, smallest file first. The bits per weight in their help are those of Llama 3.1 8B."""
