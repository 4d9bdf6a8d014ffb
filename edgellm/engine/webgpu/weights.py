"""Weights on a GPU: copied from the map as they are, in slices that fit a binding."""

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
"""Columns that shaders read together: rows of activations are padded with zeros to a multiple of it."""

_MAX_ROWS = 65535
"""The most rows of a slice, which is the most workgroups of a dispatch in one dimension."""


@dataclass(frozen=True)
class MatrixSlice:
    """Rows `first` … `first + rows - 1` of a matrix."""

    buffer: Buffer
    first: int
    rows: int


@dataclass(frozen=True)
class Matrix:
    """A weight matrix; all its slices but the last have the same number of rows."""

    format: str
    rows: int
    columns: int
    row_bytes: int
    slices: tuple[MatrixSlice, ...]


def slice_rows(tensor: Tensor, binding: int) -> int:
    """The number of rows of a matrix that fit a binding of `binding` bytes. Raises DeviceFault if none does."""
    row_bytes = tensor.type.row_bytes(tensor.shape[1])
    rows = min(_MAX_ROWS, binding // row_bytes)
    if rows < 1:
        raise DeviceFault(f"a row of {row_bytes} bytes does not fit a binding of {binding}")
    return rows


def upload_matrix(gpu: GPUContext, tensor: Tensor, progress: Callable[[int], None], most: int = _MAX_ROWS) -> Matrix:
    """Upload a matrix in slices of up to `most` rows; `progress` gets the bytes of each step."""
    rows, columns = tensor.shape
    row_bytes, most = tensor.type.row_bytes(columns), min(most, slice_rows(tensor, gpu.binding))
    slices = []
    for first in range(0, rows, most):
        count = min(most, rows - first)
        buffer = gpu.buffer(count * row_bytes, tensor.name)
        gpu.upload(buffer, tensor.data[first * row_bytes : (first + count) * row_bytes], progress)
        slices.append(MatrixSlice(buffer, first, count))
    return Matrix(tensor.type.name, rows, columns, row_bytes, tuple(slices))


def upload_vector(gpu: GPUContext, values: NDArray[np.float32]) -> Buffer:
    """Upload float32 values, padded with zeros to a multiple of GROUP."""
    padded = np.zeros(padded_width(values.size), np.float32)
    padded[: values.size] = values
    buffer = gpu.buffer(padded.nbytes, "a vector")
    gpu.write(buffer, padded)
    return buffer


def padded_width(n: int) -> int:
    """Values of a padded row of activations."""
    return -(-n // GROUP) * GROUP


def float_values(tensor: Tensor | None, n: int, default: float = 0.0) -> NDArray[np.float32]:
    """The `n` values of a float32 vector of the file; all are `default` where there is none."""
    return np.full(n, default, np.float32) if tensor is None else tensor.data.view("<f4")


class MatmulRun(NamedTuple):
    """The work of one dispatch: `rows` rows of y from `first` on, and the slices of matrices that it reads."""

    first: int
    rows: int
    slices: list[tuple[Matrix, MatrixSlice]]


def matmul_runs(matrices: Sequence[Matrix], *, gated: bool = False, together: bool = True) -> Iterator[MatmulRun]:
    """The dispatches for stacked matrices. With `together`, one dispatch reads all if each matrix is a single slice.

    With `gated`, the matrices are a gate and an up projection with equal slices, and each dispatch reads both.
    """
    if gated:
        gate, up = matrices
        for of_gate, of_up in zip(gate.slices, up.slices, strict=True):
            yield MatmulRun(of_gate.first, of_gate.rows, [(gate, of_gate), (up, of_up)])
    elif together and all(len(matrix.slices) == 1 for matrix in matrices):
        yield MatmulRun(0, sum(matrix.rows for matrix in matrices), [(matrix, matrix.slices[0]) for matrix in matrices])
    else:
        first = 0
        for matrix in matrices:
            for part in matrix.slices:
                yield MatmulRun(first + part.first, part.rows, [(matrix, part)])
            first += matrix.rows
