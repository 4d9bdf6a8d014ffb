"""A GGUF file as what is converted: its tensors as sources, its metadata bit for bit."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from converters.file_bytes import read_bytes
from converters.tensors import RowReader, Source
from edgellm.gguf import GGUFFile, Tensor
from edgellm.gguf.mapped_file import MappedFile
from edgellm.gguf.reader import HeaderReader
from edgellm.gguf.values import read_value

_OF_ONE_PART = {"split.no", "split.count", "split.tensors.count"}


def gguf_sources(file: GGUFFile) -> list[Source]:
    """The tensors of a file, all its parts included, in its order."""
    return [Source(tensor.name, tensor.shape, tensor.type.name, _rows_of(tensor)) for tensor in file.tensors.values()]


def _rows_of(tensor: Tensor) -> RowReader:
    path, start, row_bytes = tensor.path, tensor.offset, tensor.type.row_bytes(tensor.shape[-1])

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        data = read_bytes(path, start + first * row_bytes, (last - first) * row_bytes)
        return data.reshape(last - first, row_bytes)

    return rows


def raw_pairs(path: Path) -> dict[str, bytes]:
    """Each key of a file that opens, with the kind and value as they lie in it; not those that split it in parts.

    Raises ModelFileError.
    """
    with path.open("rb") as opened:
        mapped = MappedFile(path, opened)
    try:
        return _read_pairs(HeaderReader(memoryview(mapped), path))
    finally:
        mapped.check()


def _read_pairs(reader: HeaderReader) -> dict[str, bytes]:
    reader.skip(8)  # magic and version
    reader.u64()  # tensors
    pairs = {}
    for _ in range(reader.u64()):
        key, start = reader.name(), reader.offset
        read_value(reader, reader.u32())
        if key not in _OF_ONE_PART:
            pairs[key] = bytes(reader.buffer[start : reader.offset])
    return pairs
