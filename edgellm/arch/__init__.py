"""Floor 3: architectures. One file each, named like its GGUF `general.architecture`."""

from collections.abc import Callable

from edgellm.arch import llama, qwen2, qwen3
from edgellm.arch.description import Description
from edgellm.arch.refuse import refuse
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile

ARCHITECTURES: dict[str, Callable[[GGUFFile], Description]] = {
    "llama": llama.describe,
    "qwen2": qwen2.describe,
    "qwen3": qwen3.describe,
}


def describe(file: GGUFFile) -> Description:
    """What the file's architecture makes of its metadata and tensors, completely checked.

    Raises UnsupportedModelError for an architecture or a tensor type that edgellm does not compute, and
    ModelFileError where metadata and tensors contradict each other.
    """
    name = file.architecture
    if name not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        what = f"architecture {printable(name)} is not supported; edgellm runs {known}"
        refuse(file, f"{what}; others may run with --engine llama.cpp")
    return ARCHITECTURES[name](file)
