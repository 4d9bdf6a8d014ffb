"""The types of the fixtures `model_file` and `family_file`."""

from collections.abc import Callable
from pathlib import Path

ModelFile = Callable[..., Path]
"""`model_file(types="Q8_0", ...)`: the path of a random model; the options are those of `make_gguf.Spec`."""

FamilyFile = Callable[[str], Path]
"""`family_file("gemma2")`: the path of a case of `support.families`, converted, with F32 weights."""
