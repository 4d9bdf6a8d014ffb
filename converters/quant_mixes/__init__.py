"""Quantization mixes: the type of each tensor, as llama.cpp's `llama-quantize` chooses it.

mixes.py      the values of `--type`: one type for most tensors, and exceptions by role and layer
matrix.py     what the mixes ask about a matrix
assign.py     the type of each tensor of one model
structure.py  what the mixes ask of a model: layers, heads, tied embeddings
unquantized.py  the tensors that no mix quantizes
sufficient.py   the mix that is large enough for weights that were quantized before
overrides.py  `--tensor-type`: types given by the user
"""

from converters.quant_mixes.assign import assign_types, file_type, mix_name
from converters.quant_mixes.mixes import QUANT_MIXES, QuantMix
from converters.quant_mixes.overrides import parse_override

__all__ = ["QUANT_MIXES", "QuantMix", "assign_types", "file_type", "mix_name", "parse_override"]
