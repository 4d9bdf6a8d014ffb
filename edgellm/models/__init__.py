"""Models on this machine: which there are, what is in them, and the file that a name stands for."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from edgellm.errors import ModelFileError
from edgellm.gguf import GGUFFile
from edgellm.gguf.filetypes import FILE_TYPES
from edgellm.gguf.printable import printable
from edgellm.models.names import labels, resolve
from edgellm.models.stores import Stored, stored_models

__all__ = ["Found", "find_models", "resolve"]


@dataclass(frozen=True)
class Found:
    """A model file, and what its header says. `problem` is None, or why it cannot be opened.

    `name` is what MODEL accepts; `bytes` are those of all parts; the rest is None where the file does not say.
    """

    name: str
    source: str
    path: str
    bytes: int | None = None
    quantization: str | None = None
    architecture: str | None = None
    context_length: int | None = None
    problem: str | None = None


def find_models() -> list[Found]:
    """All models on this machine; only the headers of their files are read."""
    models = stored_models()
    return [_look(name, model) for name, model in zip(labels(models), models, strict=True)]


def _look(name: str, model: Stored) -> Found:
    path = model.path.absolute()
    try:
        with GGUFFile.open(path) as file:
            context = file.get_int(f"{file.architecture}.context_length", None)
            return Found(name, model.source, str(path), file.nbytes, _quantization(file), file.architecture, context)
    except ModelFileError as error:
        problem = str(error).removeprefix(f"{printable(str(path), 400)}: ")
        return Found(name, model.source, str(path), _size(path), problem=problem)


def _quantization(file: GGUFFile) -> str | None:
    """The mix that the file says it has; if it does not, the type of most of its bytes."""
    bytes_of: Counter[str] = Counter()
    for tensor in file.tensors.values():
        bytes_of[tensor.type.name] += tensor.nbytes
    most = next((name for name, _ in bytes_of.most_common(1)), None)
    return FILE_TYPES.get(file.get_int("general.file_type", -1), most)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
