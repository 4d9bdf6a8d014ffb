"""A checkpoint folder, whole: its configuration, its tensors, its small files."""

import builtins
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from converters.checkpoint import files, rows
from converters.checkpoint.files import fail
from converters.checkpoint.folder import INDEX, weight_files
from converters.checkpoint.pages import Pages
from converters.checkpoint.quantized import check_names, check_quantization
from converters.checkpoint.scales import FP8, read_scales, scale_names, scale_of
from converters.checkpoint.shard import Shard, StoredTensor, open_shard
from converters.tensors import Rows, Source
from edgellm.gguf.printable import printable

_FLOATS = ("F32", "F16", "BF16")


class Checkpoint:
    """A checkpoint as stored: `Checkpoint.open(folder)`, then use as a context manager or call `close`.

    `config` is what config.json holds, `tensors` are by their Hugging Face names. The scales of FP8 weights are not
    among them: `source` gives those weights as float32.
    """

    def __init__(self, path: Path, config: dict[str, Any], shards: list[Shard], block: tuple[int, int]) -> None:
        self.path = path
        self.config: Mapping[str, Any] = MappingProxyType(config)
        self._shards = {shard.path: shard for shard in shards}
        self._stored = {name: tensor for shard in shards for name, tensor in shard.tensors.items()}
        self._block = block
        self._pages = Pages()
        scales = scale_names(self._stored)
        self.tensors: Mapping[str, StoredTensor] = {n: t for n, t in self._stored.items() if n not in scales}

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        """Map all weights of a checkpoint and read what they are; no weight is read.

        Raises ModelFileError for what is no folder, is incomplete or damaged, holds pickled or quantized weights,
        an adapter, or GGUF files.
        """
        path = Path(folder)
        names = weight_files(path)
        config = files.read_object(path, "config.json")
        if config is None:
            fail(path, "has no config.json, which says what the weights are; download the whole checkpoint")
        block = check_quantization(path / "config.json", config)
        shards = [_open(path / file, listed) for file, listed in names.items()]
        return cls(path, config, shards, block)

    def close(self) -> None:
        """Forget the tensors, and unmap what no source or view needs."""
        self._shards.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def source(self, name: str, as_name: str, permutation: rows.Order | None = None) -> Source:
        """The tensor `name` as a source called `as_name`; row i of it is row permutation[i] of the tensor.

        (Numbers take the place of rows in a vector.) FP8 is given as F32. Raises ModelFileError for a tensor that
        is missing, empty, of no float type, or has not as many rows as the permutation.
        """
        tensor = self._float_tensor(name)
        if permutation is not None and len(permutation) != tensor.shape[0]:
            problem = f"has {tensor.shape[0]} rows, and config.json speaks of {len(permutation)}"
            fail(tensor.file, f"tensor {printable(name)} {problem}; download the checkpoint again")
        found = self._rows(tensor)
        if permutation is not None:
            found = (rows.reordered if len(tensor.shape) > 1 else rows.reordered_numbers)(found, permutation)
        return Source(as_name, tensor.shape, "F32" if tensor.dtype in FP8 else tensor.dtype, found)

    def _float_tensor(self, name: str) -> StoredTensor:
        tensor = self.tensors.get(name)
        if tensor is None:
            fail(self.path, f"has no tensor {printable(name)}; download the whole checkpoint")
        if tensor.dtype not in (*_FLOATS, *FP8):
            fail(tensor.file, f"tensor {printable(name)} has the dtype {tensor.dtype}; get a checkpoint in BF16")
        if not tensor.nbytes or not tensor.shape:
            fail(tensor.file, f"tensor {printable(name)} has no rows; download it again")
        return tensor

    def _rows(self, tensor: StoredTensor) -> Rows:
        plain = rows.stored(self._pages, self._shards[tensor.file], tensor)
        if tensor.dtype not in FP8:
            return plain
        scale = scale_of(self._stored, tensor)
        data = self._pages.take(self._shards[scale.file], scale.offset, scale.nbytes)
        return rows.decoded(plain, tensor.dtype, read_scales(tensor, scale, data, self._block))

    def json(self, name: str) -> Any | None:
        """The value in a JSON file of the folder, None if there is no such file. Raises ModelFileError."""
        return files.read_json(self.path, name)

    def text(self, name: str) -> str | None:
        """A UTF-8 text of the folder, its line ends as "\\n"; None if there is no such file. Raises ModelFileError."""
        return files.read_text(self.path, name)

    def bytes(self, name: str) -> builtins.bytes | None:
        """A small file of the folder, None if there is none. Raises ModelFileError."""
        return files.read(self.path, name)


def _open(path: Path, listed: set[str] | None) -> Shard:
    """A shard that holds what the index lists, no more and no less."""
    shard = open_shard(path)
    check_names(path, shard.tensors)
    for name in sorted(shard.tensors.keys() ^ (shard.tensors.keys() if listed is None else listed)):
        problem = "holds, unlike the index," if name in shard.tensors else "does not hold"
        fail(path, f"{problem} tensor {printable(name)}; download it and {INDEX} again")
    return shard
