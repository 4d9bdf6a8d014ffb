"""Tensors on a GPU: uploaded from the map as they are, in as many pieces as bindings ask for."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.device import DeviceFault
from edgellm.engine.webgpu.gpu import GPU, Buffer
from edgellm.gguf import Tensor

GROUP = 32
"""Columns that shaders take at once: rows of activations are padded with zeros to a multiple of it."""

_MOST_ROWS = 65535
"""Rows of a piece at most, as that is the most workgroups in a row that WebGPU has."""


@dataclass(frozen=True)
class Piece:
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
    pieces: tuple[Piece, ...]


def piece_rows(tensor: Tensor, binding: int) -> int:
    """How many rows of a matrix a binding of so many bytes holds. Raises DeviceFault if not even one."""
    row_bytes = tensor.type.row_bytes(tensor.shape[1])
    rows = min(_MOST_ROWS, (binding - 4) // row_bytes)
    if rows < 1:
        raise DeviceFault(f"a row of {row_bytes} bytes does not fit a binding of {binding}")
    return rows


def upload(gpu: GPU, tensor: Tensor, progress: Callable[[int], None]) -> Matrix:
    """A matrix of a file on the GPU; `progress` gets the bytes of each step."""
    rows, columns = tensor.shape
    row_bytes, most = tensor.type.row_bytes(columns), piece_rows(tensor, gpu.binding)
    pieces = []
    for first in range(0, rows, most):
        count = min(most, rows - first)
        buffer = gpu.buffer(count * row_bytes, tensor.name)
        gpu.upload(buffer, tensor.data[first * row_bytes : (first + count) * row_bytes], progress)
        pieces.append(Piece(buffer, first, count))
    return Matrix(tensor.type.name, rows, columns, row_bytes, tuple(pieces))


def vector(gpu: GPU, values: NDArray[np.float32]) -> Buffer:
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
