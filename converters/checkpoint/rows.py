"""Reading rows of a tensor: as stored, or in another order."""

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.shard import StoredTensor
from converters.file_bytes import read_bytes
from converters.tensors import RowReader, moved_rows

RowOrder = NDArray[np.intp]
"""Row i of the result is stored row order[i]; in a vector, number i is stored number order[i]."""


def stored(tensor: StoredTensor) -> RowReader:
    """A reader of the rows as stored."""
    row_bytes = tensor.shape[-1] * tensor.width

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        data = read_bytes(tensor.file, tensor.offset + first * row_bytes, (last - first) * row_bytes)
        return data.reshape(last - first, row_bytes)

    return rows


def permuted(rows: RowReader, order: RowOrder, *, is_vector: bool) -> RowReader:
    """A reader of the rows in another order; of a vector, of its numbers."""
    if is_vector:
        return reordered_numbers(rows, order)
    return moved_rows([rows], lambda readers: reordered(readers[0], order))


def reordered(rows: RowReader, order: RowOrder) -> RowReader:
    """A reader in another order. Adjacent stored rows are read at once, and no others are read."""

    def gathered(first: int, last: int) -> NDArray[np.uint8]:
        wanted = order[first:last]
        places = wanted.argsort()
        runs = np.split(places, 1 + np.flatnonzero(np.diff(wanted[places]) != 1))
        parts = [rows(int(wanted[run[0]]), int(wanted[run[-1]]) + 1) for run in runs]
        found = np.empty((len(wanted), parts[0].shape[1]), np.uint8)
        for run, part in zip(runs, parts, strict=True):
            found[run] = part
        return found

    return gathered


def reordered_numbers(rows: RowReader, order: RowOrder) -> RowReader:
    """A reader of a vector, the single row of `rows`, with its numbers in another order."""

    def gathered(first: int, last: int) -> NDArray[np.uint8]:
        numbers = rows(first, last).reshape(len(order), -1)
        return np.take(numbers, order, axis=0).reshape(1, -1)

    return gathered
