"""A checkpoint: its configuration, its tensors, its small files."""

import os
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from converters.checkpoint import files, rows
from converters.checkpoint.files import fail
from converters.checkpoint.folder import INDEX, weight_files
from converters.checkpoint.quantized import Finder, QuantizedWeight, find_quantized, finders_of, read_settings
from converters.checkpoint.quantized.small import FLOATS, read_floats
from converters.checkpoint.quantized.summary import QuantizationSummary, summary_of
from converters.checkpoint.shard import StoredTensor, read_shard
from converters.tensors import Source
from edgellm.fmt import printable

_MAX_TENSORS = 1 << 17


class Checkpoint:
    """A checkpoint folder, opened by `Checkpoint.open(folder)`.

    `config` is the content of config.json; `tensors` have their Hugging Face names as keys; `weights` are the files
    that hold them. A weight that is quantized is one tensor there, a `QuantizedWeight`, under the name that it would
    have in a checkpoint of floats; its parts, such as scales, are not there. No file stays open, and no weights stay in
    memory.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        stored: Mapping[str, StoredTensor],
        finders: Sequence[Finder],
        method: str,
    ) -> None:
        self.path = path
        self.config = MappingProxyType(config)
        self.tensors = MappingProxyType(find_quantized(finders, stored))
        self._method = method
        self.weights = sorted({tensor.file for tensor in stored.values()})

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        """Read config.json and the headers of the weight files, no weights.

        Raises ModelFileError if `folder` is no folder, is incomplete or damaged, or holds pickled weights, weights
        quantized by a method that is not read, an adapter, or GGUF files.
        """
        path = Path(folder)
        listed = weight_files(path)
        config = files.read_object(path, "config.json")
        if config is None:
            beside = " beside params.json, which is Mistral's own" if (path / "params.json").exists() else ""
            fail(path, f"has no config.json{beside}: it says what the weights are; download the whole checkpoint")
        settings = read_settings(path, config)
        finders = finders_of(settings)
        stored: dict[str, StoredTensor] = {}
        for file, names in listed.items():
            stored |= _read(path / file, names)
            if len(stored) > _MAX_TENSORS:
                fail(path, f"has more than {_MAX_TENSORS} tensors, as no model does; download it again")
        return cls(path, config, stored, finders, settings.method)

    def source(self, name: str, as_name: str, permutation: rows.RowOrder | None = None) -> Source:
        """The tensor `name` as a source named `as_name`, whose row i is row permutation[i] of the tensor.

        In a vector, numbers are permuted. Rows of a quantized weight are floats, or blocks of GGUF. Raises
        ModelFileError for a tensor that is missing, empty, or of no float type, for parts of a quantized one that do
        not fit, and if the permutation has another length than the tensor has rows.
        """
        tensor = self._float_tensor(name)
        if isinstance(tensor, QuantizedWeight):
            found, held = tensor.reader(), tensor.held
        else:
            found, held = rows.stored(tensor), 0
        if permutation is not None:
            if len(permutation) != tensor.shape[0]:
                problem = f"has {tensor.shape[0]} rows, and config.json speaks of {len(permutation)}"
                fail(tensor.file, f"tensor {printable(name)} {problem}; download the checkpoint again")
            found = rows.permuted(found, permutation, is_vector=len(tensor.shape) == 1)
        return Source(as_name, tensor.shape, tensor.dtype, found, held)

    @property
    def quantization(self) -> QuantizationSummary | None:
        """How its weights are quantized, None if they are not, or if the file keeps them as they are."""
        return summary_of(each for each in self.tensors.values() if isinstance(each, QuantizedWeight))

    @property
    def unused_method(self) -> str:
        """The method of quantization that its settings name, if no weight is quantized; else ""."""
        return "" if any(isinstance(each, QuantizedWeight) for each in self.tensors.values()) else self._method

    def number(self, name: str) -> float:
        """The value of a tensor that holds one number. Raises ModelFileError."""
        tensor = self.tensors.get(name)
        if not isinstance(tensor, StoredTensor) or tensor.dtype not in FLOATS or prod(tensor.shape) != 1:
            fail(self.path, f"tensor {printable(name)} is not one number of {', '.join(FLOATS)}; get another copy")
        return float(read_floats(tensor)[0])

    def is_zero_bias(self, name: str) -> bool:
        """Whether a tensor is a bias of zeros of a module with a quantized weight, as AutoGPTQ adds to all modules."""
        tensor, weight = self.tensors.get(name), self.tensors.get(f"{name.removesuffix('.bias')}.weight")
        if not isinstance(tensor, StoredTensor) or not isinstance(weight, QuantizedWeight):
            return False
        return tensor.dtype in FLOATS and tensor.shape == weight.shape[:1] and not read_floats(tensor).any()

    def _float_tensor(self, name: str) -> StoredTensor | QuantizedWeight:
        tensor = self.tensors.get(name)
        if tensor is None:
            fail(self.path, f"has no tensor {printable(name)}; download the whole checkpoint")
        if isinstance(tensor, StoredTensor) and tensor.dtype not in FLOATS:
            fail(tensor.file, f"tensor {printable(name)} has the dtype {tensor.dtype}; get a checkpoint in BF16")
        if not prod(tensor.shape or (0,)):
            fail(tensor.file, f"tensor {printable(name)} has no rows; download it again")
        return tensor

    def json(self, name: str) -> Any | None:
        """The value of a JSON file in the folder, None if there is no such file. Raises ModelFileError."""
        return files.read_json(self.path, name)

    def text(self, name: str) -> str | None:
        """A UTF-8 text file in the folder, with "\\n" as line end; None if there is no such file.

        Raises ModelFileError.
        """
        return files.read_text(self.path, name)

    def bytes(self, name: str) -> bytes | None:
        """A small file in the folder, None if there is no such file. Raises ModelFileError."""
        return files.read(self.path, name)


def _read(path: Path, listed: set[str] | None) -> dict[str, StoredTensor]:
    """The tensors of a file. Raises ModelFileError if the index, given as `listed`, has other ones for it."""
    found = read_shard(path)
    for name in sorted(found.keys() ^ (found.keys() if listed is None else listed)):
        problem = "holds, unlike the index," if name in found else "does not hold"
        fail(path, f"{problem} tensor {printable(name)}; download it and {INDEX} again")
    return found
