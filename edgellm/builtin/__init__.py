"""The model that is part of edgellm, for a first try before a model is pulled.

`edgellm convert` made it from models/builtin/checkpoint in the project's repository, which also has its recipe.
"""

from pathlib import Path

NAME = "builtin"
"""The MODEL that always means this model, even if a file has this name."""

PATH = Path(__file__).parent / "builtin.gguf"
