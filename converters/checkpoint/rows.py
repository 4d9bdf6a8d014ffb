"""Rows of a stored tensor on demand: as they lie in the file, in another order, or decoded from FP8."""

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.fp8 import FP8Scales, decode
from converters.checkpoint.shard import StoredTensor
from converters.file_bytes import read_bytes
from converters.tensors import RowReader

RowOrder = NDArray[np.intp]
"""Row i of what is given is row order[i] of what is stored; of a vector, number i is number order[i]."""


def stored(tensor: StoredTensor) -> RowReader:
    """The rows as they lie in the file."""
    row_bytes = tensor.shape[-1] * tensor.width

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        data = read_bytes(tensor.file, tensor.offset + first * row_bytes, (last - first) * row_bytes)
        return data.reshape(last - first, row_bytes)

    return rows


def decoded(rows: RowReader, dtype: str, scales: FP8Scales) -> RowReader:
    """FP8 rows as float32."""

    def as_floats(first: int, last: int) -> NDArray[np.uint8]:
        return decode(rows(first, last), dtype, scales, first).view(np.uint8)

    return as_floats


def reordered(rows: RowReader, order: RowOrder) -> RowReader:
    """The rows asked for, and no others: each run of neighbours is read at once."""

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
    """A vector, the one row of `rows`, with its numbers in another order."""

    def gathered(first: int, last: int) -> NDArray[np.uint8]:
        numbers = rows(first, last).reshape(len(order), -1)
        return np.take(numbers, order, axis=0).reshape(1, -1)

    return gathered
