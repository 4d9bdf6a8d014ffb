"""The model that comes with edgellm, for a first try before anything is pulled.

`edgellm convert` made it of models/builtin/checkpoint in the project's repository, where its recipe lies, too.
"""

from pathlib import Path

NAME = "builtin"
"""What MODEL is for it, whatever other files there are."""

PATH = Path(__file__).parent / "builtin.gguf"
