"""`--type dynamic`: a type for each tensor, chosen by what it costs the model, within a size.

candidates.py  the types that a tensor may get, with their bytes and errors
losses.py      how far the model goes from itself when one tensor is quantized
allocation.py  the choice of types
settings.py    what the user gives: `--size` or `--bits`, and the text
recipe.py      all of it, for a GGUF file
"""

from converters.dynamic.recipe import BASE_MIX, dynamic_tensors, free_tensors, nearest_mix
from converters.dynamic.settings import dynamic_settings

__all__ = ["BASE_MIX", "dynamic_settings", "dynamic_tensors", "free_tensors", "nearest_mix"]
