"""Tensors of a GGUF file: their table in the header, checked completely, then views into the map."""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.fmt import printable, size
from edgellm.gguf.reader import HeaderReader
from kquants.ggml import GGML_TYPES, REMOVED_TYPES, GGMLType


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One tensor where it lies in the file.

    `shape` is in numpy order, outermost first: (rows, columns); GGUF stores it reversed. `data` is a 1-D
    read-only uint8 view of the `nbytes` bytes at byte `offset` of `path`, the split part it is in.
    """

    name: str
    type: GGMLType
    shape: tuple[int, ...]
    data: NDArray[np.uint8]
    offset: int
    path: Path

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return self.data.size

    @property
    def size(self) -> int:
        """Number of weights."""
        return prod(self.shape)


class TensorInfo(NamedTuple):
    """An entry of the tensor table; `offset` counts from the start of the data section."""

    name: str
    type: GGMLType
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes that type and shape need."""
        return prod(self.shape[:-1]) * self.type.row_bytes(self.shape[-1])


def read_tensor_info(cursor: HeaderReader, number: int) -> TensorInfo:
    """The next entry of the tensor table: name, dimensions, type, offset."""
    cursor.doing = f"tensor {number} of its table"
    name = cursor.name()
    cursor.doing = f"tensor {printable(name)}"
    shape = _read_shape(cursor)
    kind = _read_type(cursor)
    if shape[-1] % kind.block:
        problem = f"is damaged: rows of {shape[-1]} weights are no whole {kind.name} blocks of {kind.block}"
        cursor.fail(problem)
    return TensorInfo(name, kind, shape, cursor.u64())


def _read_shape(cursor: HeaderReader) -> tuple[int, ...]:
    n = cursor.u32()
    if not 1 <= n <= 4:
        cursor.fail(f"is damaged: a tensor has 1 to 4 dimensions, not {n}")
    dims = [cursor.u64() for _ in range(n)]
    if not 0 < prod(dims) < 1 << 63:
        cursor.fail(f"is damaged: the dimensions {' x '.join(map(str, dims))} are impossible")
    return tuple(reversed(dims))


def _read_type(cursor: HeaderReader) -> GGMLType:
    number = cursor.u32()
    if number in REMOVED_TYPES:
        cursor.fail(f"has the retired type {REMOVED_TYPES[number]}", "get a newer conversion")
    if number not in GGML_TYPES:
        cursor.fail(f"has the unknown type {number}", "update edgellm, or download the file again")
    return GGML_TYPES[number]


def place_tensors(
    cursor: HeaderReader, infos: list[TensorInfo], alignment: int, data: NDArray[np.uint8]
) -> list[Tensor]:
    """The tensors in the data section, which starts at the next multiple of `alignment`; `data` is the whole file.

    Raises ModelFileError when a tensor is misaligned, shares bytes with another, or passes the file's end.
    """
    start = -(-cursor.at // alignment) * alignment
    _check_spans(cursor, start, infos, alignment, len(data))
    return [
        Tensor(i.name, i.type, i.shape, data[at : at + i.nbytes], at, cursor.path)
        for i in infos
        for at in [start + i.offset]
    ]


def _check_spans(cursor: HeaderReader, start: int, infos: list[TensorInfo], alignment: int, nbytes: int) -> None:
    end, before = 0, ""
    for info in sorted(infos, key=lambda info: info.offset):
        cursor.doing, cursor.at = f"tensor {printable(info.name)}", start + info.offset
        if info.offset % alignment:
            cursor.fail(f"is damaged: the offset {info.offset} is no multiple of {alignment}")
        if info.offset < end:
            cursor.fail(f"is damaged: it shares bytes with tensor {before}")
        end, before = info.offset + info.nbytes, printable(info.name)
    missing = start + end - nbytes
    if infos and missing > 0:
        cursor.doing, cursor.at = "the weights", nbytes
        cursor.fail(f"is cut off: it ends {size(missing)} before the end of tensor {before}")
