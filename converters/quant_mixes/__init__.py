"""Recipes: which type each tensor of a model gets, the same as llama.cpp's `llama-quantize` chooses.

`QUANT_MIXES` is what `--type` offers; `assign_types` decides for the tensors of one model; `parse_override` reads what
`--tensor-type` was given, `mix_name` what `--type` was.
"""

from converters.quant_mixes.assign import ARCHITECTURES, assign_types, mix_name
from converters.quant_mixes.mixes import QUANT_MIXES, QuantMix
from converters.quant_mixes.overrides import parse_override

__all__ = ["ARCHITECTURES", "QUANT_MIXES", "QuantMix", "assign_types", "mix_name", "parse_override"]
