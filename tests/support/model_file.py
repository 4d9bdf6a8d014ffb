"""The type of the fixture `model_file`."""

from collections.abc import Callable
from pathlib import Path

ModelFile = Callable[..., Path]
"""`model_file(types="Q8_0", ...)`: the path of a random model; the options are those of `make_gguf.Spec`."""
