"""Tensors of experts that a checkpoint holds within another: gate and up in one, or matrices stored by columns."""

from collections.abc import Callable
from dataclasses import replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from converters.architectures.sources import WIDTHS, stacked
from converters.tensors import RowReader, Source, moved_rows
from edgellm.arch.tensor_names import FusedTensor

_KEPT = 3
"""Matrices that are kept in memory: chunks of neighbouring experts are read at the same time."""

Matrix = NDArray[np.uint8]


class MatrixCache:
    """The matrices read last, for all tensors of a checkpoint. Thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], Matrix] = {}
        self._lock = Lock()

    def get(self, name: str, number: int, read: Callable[[int], Matrix]) -> Matrix:
        """Matrix `number` of the tensor `name`, read by `read(number)` unless it is kept."""
        with self._lock:
            key = (name, number)
            if key not in self._kept:
                while len(self._kept) >= _KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = read(number)
            return self._kept[key]


def fused_part(source: Source, fused: FusedTensor, index: int, shape: tuple[int, ...], cache: MatrixCache) -> Source:
    """Tensor number `index` of those that `source` holds, as `fused` says; it has the shape `shape`."""
    count = len(fused.gguf)
    if not fused.stacked:
        return _matrix(source, index * shape[0], slice(0, shape[0], 1), (1, *shape))
    step = count if fused.interleaved else 1
    first = index if fused.interleaved else index * shape[1]
    rows = slice(first, first + (shape[1] - 1) * step + 1, step)
    if len(shape) == 2:
        return _columns(source, rows, shape)
    if fused.transposed:
        return _transposed(source, rows, shape, cache)
    parts = [_matrix(source, number * shape[1] * count, rows, shape) for number in range(shape[0])]
    return stacked(source.name, parts)


def _columns(source: Source, columns: slice, shape: tuple[int, ...]) -> Source:
    """Some numbers of each row, such as the biases of gate."""

    def read(first: int, last: int) -> NDArray[np.uint8]:
        numbers = source.rows(first, last).view(f"<u{WIDTHS[source.type]}")
        return np.ascontiguousarray(numbers[:, columns]).view(np.uint8)

    return replace(source, shape=shape, rows=read)


def _matrix(source: Source, start: int, rows: slice, shape: tuple[int, ...]) -> Source:
    """Some rows of the matrix that begins at row `start` of `source`."""

    at = start + rows.start

    def of(read: RowReader) -> RowReader:
        return lambda first, last: read(at + first * rows.step, at + (last - 1) * rows.step + 1)[:: rows.step]

    return replace(source, shape=shape[1:], rows=moved_rows([source.rows], lambda readers: of(readers[0])))


def _transposed(source: Source, rows: slice, shape: tuple[int, ...], cache: MatrixCache) -> Source:
    """Matrices whose columns are stored as rows. One is read at once, as a few of its rows are scattered over it."""
    count, columns = shape[1:]
    width = WIDTHS[source.type]

    def read(number: int) -> Matrix:
        stored = source.rows(number * columns, (number + 1) * columns).view(f"<u{width}")
        return np.ascontiguousarray(stored[:, rows].T).view(np.uint8)

    def rows_of(number: int) -> RowReader:
        return lambda first, last: cache.get(source.name, number, read)[first:last]

    held = source.held + width * columns * (source.columns + _KEPT * count)
    parts = [replace(source, shape=shape[1:], rows=rows_of(number)) for number in range(shape[0])]
    return replace(stacked(source.name, parts), held=held)
