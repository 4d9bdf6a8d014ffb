"""A checkpoint: its configuration, its tensors, its small files."""

import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from converters.checkpoint import files, rows
from converters.checkpoint.files import fail
from converters.checkpoint.folder import INDEX, weight_files
from converters.checkpoint.mxfp4 import MXFP4, mxfp4_parts, mxfp4_rows, with_mxfp4
from converters.checkpoint.quantized import check_names, check_quantization
from converters.checkpoint.scales import FP8, read_floats, read_scales, scale_names, scale_of
from converters.checkpoint.shard import StoredTensor, read_shard
from converters.tensors import Source
from edgellm.fmt import printable

_FLOATS = ("F32", "F16", "BF16")
_MAX_TENSORS = 1 << 17


class Checkpoint:
    """A checkpoint folder, opened by `Checkpoint.open(folder)`.

    `config` is the content of config.json; `tensors` have their Hugging Face names as keys; `weights` are the files
    that hold them. The scales of FP8 weights are not in `tensors`: `source` returns such weights as float32. Nor are
    those of MXFP4, whose tensors of blocks have the dtype MXFP4 and the shape of the weights there. No file stays open,
    and no weights stay in memory.
    """

    def __init__(
        self, path: Path, config: Mapping[str, Any], stored: Mapping[str, StoredTensor], block: tuple[int, int]
    ) -> None:
        scales = scale_names(stored)
        self.path = path
        self.config = MappingProxyType(config)
        without_scales = {name: tensor for name, tensor in stored.items() if name not in scales}
        self.tensors = MappingProxyType(with_mxfp4(without_scales))
        self.weights = sorted({tensor.file for tensor in stored.values()})
        self._stored = stored
        self._block = block

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        """Read config.json and the headers of the weight files, no weights.

        Raises ModelFileError if `folder` is no folder, is incomplete or damaged, or holds pickled or quantized
        weights, an adapter, or GGUF files.
        """
        path = Path(folder)
        listed = weight_files(path)
        config = files.read_object(path, "config.json")
        if config is None:
            beside = " beside params.json, which is Mistral's own" if (path / "params.json").exists() else ""
            fail(path, f"has no config.json{beside}: it says what the weights are; download the whole checkpoint")
        block = check_quantization(path / "config.json", config)
        stored: dict[str, StoredTensor] = {}
        for file, names in listed.items():
            stored |= _read(path / file, names)
            if len(stored) > _MAX_TENSORS:
                fail(path, f"has more than {_MAX_TENSORS} tensors, as no model does; download it again")
        return cls(path, config, stored, block)

    def source(self, name: str, as_name: str, permutation: rows.RowOrder | None = None) -> Source:
        """The tensor `name` as a source named `as_name`, whose row i is row permutation[i] of the tensor.

        In a vector, numbers are permuted. FP8 becomes F32, blocks of MXFP4 those of GGUF. Raises ModelFileError
        for a tensor that is missing, empty, or of no float type, and if the permutation has another length than the
        tensor has rows.
        """
        tensor = self._float_tensor(name)
        is_mxfp4 = tensor.dtype == MXFP4
        found = mxfp4_rows(*mxfp4_parts(self._stored, name)) if is_mxfp4 else rows.stored(tensor)
        if tensor.dtype in FP8:
            scales = read_scales(tensor, scale_of(self._stored, tensor), self._block)
            found = rows.decoded(found, tensor.dtype, scales)
        if permutation is not None:
            if len(permutation) != tensor.shape[0]:
                problem = f"has {tensor.shape[0]} rows, and config.json speaks of {len(permutation)}"
                fail(tensor.file, f"tensor {printable(name)} {problem}; download the checkpoint again")
            found = (rows.reordered if len(tensor.shape) > 1 else rows.reordered_numbers)(found, permutation)
        return Source(as_name, tensor.shape, "F32" if tensor.dtype in FP8 else tensor.dtype, found)

    def number(self, name: str) -> float:
        """The value of a tensor that holds one number. Raises ModelFileError."""
        tensor = self.tensors.get(name)
        if tensor is None or tensor.dtype not in _FLOATS or prod(tensor.shape) != 1:
            fail(self.path, f"tensor {printable(name)} is not one number of {', '.join(_FLOATS)}; get another copy")
        return float(read_floats(tensor)[0])

    def _float_tensor(self, name: str) -> StoredTensor:
        tensor = self.tensors.get(name)
        if tensor is None:
            fail(self.path, f"has no tensor {printable(name)}; download the whole checkpoint")
        if tensor.dtype not in (*_FLOATS, *FP8, MXFP4):
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
    check_names(path, found)
    for name in sorted(found.keys() ^ (found.keys() if listed is None else listed)):
        problem = "holds, unlike the index," if name in found else "does not hold"
        fail(path, f"{problem} tensor {printable(name)}; download it and {INDEX} again")
    return found
