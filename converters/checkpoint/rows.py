"""Rows of a stored tensor on demand: as they lie in the file, in another order, or decoded from FP8."""

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.fp8 import Scales, decode
from converters.checkpoint.pages import Pages
from converters.checkpoint.shard import Shard, StoredTensor
from converters.tensors import Rows

Order = NDArray[np.intp]
"""Row i of what is given is row order[i] of what is stored; of a vector, number i is number order[i]."""


def stored(pages: Pages, shard: Shard, tensor: StoredTensor) -> Rows:
    """The rows as they lie in the map, or a copy if they lie where no array of such numbers may begin."""
    row_bytes, aligned = tensor.shape[-1] * tensor.width, tensor.offset % tensor.width == 0

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        taken = pages.take(shard, tensor.offset + first * row_bytes, (last - first) * row_bytes)
        return (taken if aligned else taken.copy()).reshape(last - first, row_bytes)

    return rows


def decoded(rows: Rows, dtype: str, scales: Scales) -> Rows:
    """FP8 rows as float32."""

    def as_floats(first: int, last: int) -> NDArray[np.uint8]:
        return decode(rows(first, last), dtype, scales, first).view(np.uint8)

    return as_floats


def reordered(rows: Rows, order: Order) -> Rows:
    """A copy of the rows asked for, gathered from the smallest range that holds them all."""

    def gathered(first: int, last: int) -> NDArray[np.uint8]:
        wanted = order[first:last]
        low, high = int(wanted.min()), int(wanted.max()) + 1
        return np.take(rows(low, high), wanted - low, axis=0)

    return gathered


def reordered_numbers(rows: Rows, order: Order) -> Rows:
    """A vector, the one row of `rows`, with its numbers in another order."""

    def gathered(first: int, last: int) -> NDArray[np.uint8]:
        numbers = rows(first, last).reshape(len(order), -1)
        return np.take(numbers, order, axis=0).reshape(1, -1)

    return gathered
