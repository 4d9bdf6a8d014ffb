"""A GGUF file as the source of a conversion: its tensors, and its metadata bit for bit."""

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
    """The tensors of a file and all its parts, in the order of the file."""
    return [Source(tensor.name, tensor.shape, tensor.type.name, _rows_of(tensor)) for tensor in file.tensors.values()]


def _rows_of(tensor: Tensor) -> RowReader:
    path, start, row_bytes = tensor.path, tensor.offset, tensor.type.row_bytes(tensor.shape[-1])

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        data = read_bytes(path, start + first * row_bytes, (last - first) * row_bytes)
        return data.reshape(last - first, row_bytes)

    return rows


def raw_pairs(path: Path) -> dict[str, bytes]:
    """The encoded type and value of each metadata key; the keys that describe the split into parts are left out.

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
