"""Tensors on a GPU: uploaded from the map as they are, in as many pieces as bindings ask for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.device import DeviceFault
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.gguf import Tensor

GROUP = 32
"""Columns that shaders take at once: rows of activations are padded with zeros to a multiple of it."""

_MOST_ROWS = 65535
"""Rows of a piece at most, as that is the most workgroups in a row that WebGPU has."""


@dataclass(frozen=True)
class MatrixSlice:
    """Rows `first` … `first + rows - 1` of a matrix."""

    buffer: Buffer
    first: int
    rows: int


@dataclass(frozen=True)
class Matrix:
    """A weight matrix of a format; all but its last piece have the same number of rows."""

    format: str
    rows: int
    columns: int
    row_bytes: int
    pieces: tuple[MatrixSlice, ...]


def piece_rows(tensor: Tensor, binding: int) -> int:
    """How many rows of a matrix a binding of so many bytes holds. Raises DeviceFault if not even one."""
    row_bytes = tensor.type.row_bytes(tensor.shape[1])
    rows = min(_MOST_ROWS, binding // row_bytes)
    if rows < 1:
        raise DeviceFault(f"a row of {row_bytes} bytes does not fit a binding of {binding}")
    return rows


def upload(gpu: GPUContext, tensor: Tensor, progress: Callable[[int], None], most: int = _MOST_ROWS) -> Matrix:
    """A matrix of a file on the GPU, in pieces of up to `most` rows; `progress` gets the bytes of each step."""
    rows, columns = tensor.shape
    row_bytes, most = tensor.type.row_bytes(columns), min(most, piece_rows(tensor, gpu.binding))
    pieces = []
    for first in range(0, rows, most):
        count = min(most, rows - first)
        buffer = gpu.buffer(count * row_bytes, tensor.name)
        gpu.upload(buffer, tensor.data[first * row_bytes : (first + count) * row_bytes], progress)
        pieces.append(MatrixSlice(buffer, first, count))
    return Matrix(tensor.type.name, rows, columns, row_bytes, tuple(pieces))


def vector(gpu: GPUContext, values: NDArray[np.float32]) -> Buffer:
    """Float32 values on the GPU, with zeros behind them to a multiple of GROUP."""
    padded = np.zeros(padded_width(values.size), np.float32)
    padded[: values.size] = values
    buffer = gpu.buffer(padded.nbytes, "a vector")
    gpu.write(buffer, padded)
    return buffer


def padded_width(n: int) -> int:
    """Values of a row of activations."""
    return -(-n // GROUP) * GROUP


def floats(tensor: Tensor | None, n: int) -> NDArray[np.float32]:
    """The values of a float32 vector of the file, or `n` zeros."""
    return np.zeros(n, np.float32) if tensor is None else tensor.data.view("<f4")


class Run(NamedTuple):
    """What one dispatch makes: rows of y from `first` on, and the pieces of matrices that it reads."""

    first: int
    rows: int
    pieces: list[tuple[Matrix, MatrixSlice]]


def runs(matrices: Sequence[Matrix], *, gated: bool = False, together: bool = True) -> Iterator[Run]:
    """The runs of matrices below each other; `together`: those of one piece each are read by one dispatch.

    `gated`: of a gate and an up projection, which are beside each other and cut alike.
    """
    if gated:
        gate, up = matrices
        for of_gate, of_up in zip(gate.pieces, up.pieces, strict=True):
            yield Run(of_gate.first, of_gate.rows, [(gate, of_gate), (up, of_up)])
    elif together and all(len(matrix.pieces) == 1 for matrix in matrices):
        yield Run(0, sum(matrix.rows for matrix in matrices), [(matrix, matrix.pieces[0]) for matrix in matrices])
    else:
        first = 0
        for matrix in matrices:
            for piece in matrix.pieces:
                yield Run(first + piece.first, piece.rows, [(matrix, piece)])
            first += matrix.rows
