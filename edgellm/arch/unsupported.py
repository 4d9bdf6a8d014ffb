"""Refusing files of no model, and architectures that edgellm does not compute, by what their files have."""

from collections.abc import Callable
from typing import NoReturn

from edgellm.arch.refuse import refuse
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile
from edgellm.gguf.auxiliary import auxiliary_kind


def check_holds_model(file: GGUFFile) -> None:
    """Raise UnsupportedModelError for an auxiliary file, such as that of a draft head."""
    if kind := auxiliary_kind(file.metadata):
        kind.refuse(file.path)


def refuse_architecture(file: GGUFFile, supported: int) -> NoReturn:
    """Raise UnsupportedModelError: the file's architecture is none of the `supported` ones that edgellm computes."""
    name = file.architecture
    parts = [part for part, is_there in _UNSUPPORTED_PARTS.items() if is_there(file, name)]
    having = f" with {' and '.join(parts)}" if parts else ""
    refuse(
        file,
        f"architecture {printable(name)}{having} is not supported; edgellm runs {supported} architectures of "
        "transformers and hybrids, such as llama, qwen3moe and qwen35; others may run with --engine llama.cpp",
    )


def _has_recurrent_layers(file: GGUFFile, name: str) -> bool:
    return any(key.startswith((f"{name}.ssm.", f"{name}.shortconv.", f"{name}.wkv.")) for key in file.metadata)


_UNSUPPORTED_PARTS: dict[str, Callable[[GGUFFile, str], bool]] = {
    "recurrent layers of its own": _has_recurrent_layers,
    "bidirectional attention": lambda file, name: file.hint(f"{name}.attention.causal", bool) is False,
}
"""What a file may have that edgellm does not compute, and whether it does."""
