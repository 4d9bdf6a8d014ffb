"""Recipes: which type each tensor of a model gets, the same as llama.cpp's `llama-quantize` chooses.

`RECIPES` is what `--type` offers; `plan` decides for the tensors of one model; `parse_override` reads what
`--tensor-type` was given, `recipe_name` what `--type` was.
"""

from converters.recipes.choose import ARCHITECTURES, plan, recipe_name
from converters.recipes.mixes import RECIPES, Recipe
from converters.recipes.overrides import parse_override

__all__ = ["ARCHITECTURES", "RECIPES", "Recipe", "parse_override", "plan", "recipe_name"]
