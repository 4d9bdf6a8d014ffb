"""Tensors of a GGUF file: the table in the header, checked completely, and views of the map."""

import re
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.fmt import printable, size
from edgellm.gguf.reader import HeaderReader
from kquants.ggml import GGML_TYPES, REMOVED_TYPES, GGMLType
from kquants.ik_types import IK_TYPES

_VIEW = re.compile(r"(\[\d+:\d+\])+$", re.ASCII)
"""What `Tensor.rows` appends to a name."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor in a mapped file.

    `shape` is in numpy order, outermost first: (rows, columns); GGUF stores it reversed. `data` is a 1-D
    read-only uint8 view of the `nbytes` bytes at byte `offset` of `path`, the part of the model that has the tensor.
    """

    name: str
    type: GGMLType
    shape: tuple[int, ...]
    data: NDArray[np.uint8]
    offset: int
    path: Path

    @property
    def nbytes(self) -> int:
        """Size in the file, in bytes."""
        return self.data.size

    @property
    def size(self) -> int:
        """Number of weights."""
        return prod(self.shape)

    @property
    def stored_name(self) -> str:
        """The name of the tensor in the file that this one is, or is a view of."""
        return _VIEW.sub("", self.name)

    def rows(self, first: int, last: int) -> "Tensor":
        """Rows `first` … `last` - 1 of a matrix, or these values of a vector: a view of the same bytes."""
        rows, *rest = self.shape
        row_bytes = self.nbytes // rows
        start, stop = first * row_bytes, last * row_bytes
        name = f"{self.name}[{first}:{last}]"
        return Tensor(name, self.type, (last - first, *rest), self.data[start:stop], self.offset + start, self.path)

    def matrix(self, i: int) -> "Tensor":
        """Matrix `i` of a stack, or this row of a matrix: a view of the same bytes, with one dimension less."""
        return replace(self.rows(i, i + 1), shape=self.shape[1:])


class TensorInfo(NamedTuple):
    """An entry of the tensor table; `offset` counts from the start of the data section."""

    name: str
    type: GGMLType
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """Size in bytes that follows from type and shape."""
        return prod(self.shape[:-1]) * self.type.row_bytes(self.shape[-1])


def read_tensor_info(reader: HeaderReader, number: int) -> TensorInfo:
    """Read the next entry of the tensor table, number `number`: name, dimensions, type, offset."""
    reader.context = f"tensor {number} of its table"
    name = reader.name()
    reader.context = f"tensor {printable(name)}"
    shape = _read_shape(reader)
    kind = _read_type(reader)
    if shape[-1] % kind.block:
        problem = f"is damaged: rows of {shape[-1]} weights are no whole {kind.name} blocks of {kind.block}"
        reader.fail(problem)
    return TensorInfo(name, kind, shape, reader.u64())


def _read_shape(reader: HeaderReader) -> tuple[int, ...]:
    n = reader.u32()
    if not 1 <= n <= 4:
        reader.fail(f"is damaged: a tensor has 1 to 4 dimensions, not {n}")
    dims = [reader.u64() for _ in range(n)]
    if not 0 < prod(dims) < 1 << 63:
        reader.fail(f"is damaged: the dimensions {' x '.join(map(str, dims))} are impossible")
    return tuple(reversed(dims))


def _read_type(reader: HeaderReader) -> GGMLType:
    number = reader.u32()
    if number in REMOVED_TYPES:
        reader.fail(f"has the retired type {REMOVED_TYPES[number]}", "get a newer conversion")
    kind = GGML_TYPES.get(number) or IK_TYPES.get(number)
    if kind is None:
        reader.fail(f"has the unknown type {number}", "update edgellm, or download the file again")
    return kind


def place_tensors(
    reader: HeaderReader, infos: list[TensorInfo], alignment: int, data: NDArray[np.uint8]
) -> list[Tensor]:
    """The tensors in the data section, which starts at the next multiple of `alignment`; `data` is the whole file.

    Raises ModelFileError for a tensor that is misaligned, overlaps another, or reaches beyond the end of the file.
    """
    start = -(-reader.offset // alignment) * alignment
    _check_spans(reader, start, infos, alignment, len(data))
    return [
        Tensor(i.name, i.type, i.shape, data[at : at + i.nbytes], at, reader.path)
        for i in infos
        for at in [start + i.offset]
    ]


def _check_spans(reader: HeaderReader, start: int, infos: list[TensorInfo], alignment: int, nbytes: int) -> None:
    end, before = 0, ""
    for info in sorted(infos, key=lambda info: info.offset):
        reader.context, reader.offset = f"tensor {printable(info.name)}", start + info.offset
        if info.offset % alignment:
            reader.fail(f"is damaged: the offset {info.offset} is no multiple of {alignment}")
        if info.offset < end:
            reader.fail(f"is damaged: it shares bytes with tensor {before}")
        end, before = info.offset + info.nbytes, printable(info.name)
    missing = start + end - nbytes
    if infos and missing > 0:
        reader.context, reader.offset = "the weights", nbytes
        reader.fail(f"is cut off: it ends {size(missing)} before the end of tensor {before}")
