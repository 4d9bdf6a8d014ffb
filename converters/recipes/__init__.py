"""Recipes: which type each tensor of a model gets, the same as llama.cpp's `llama-quantize` chooses.

`RECIPES` is what `--type` offers; `plan` decides for the tensors of one model; `parse_override` reads what
`--tensor-type` was given.
"""

from converters.recipes.choose import ARCHITECTURES, plan
from converters.recipes.mixes import RECIPES, Recipe
from converters.recipes.overrides import parse_override

__all__ = ["ARCHITECTURES", "RECIPES", "Recipe", "parse_override", "plan"]
