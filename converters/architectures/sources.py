"""Tensors of a GGUF file that are made of others, or of nothing. All are read by rows, a chunk at a time."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.rows import reordered
from converters.tensors import RowReader, Source, moved_rows
from edgellm.errors import UnsupportedModelError
from edgellm.fmt import printable

WIDTHS = {"F32": 4, "F16": 2, "BF16": 2}
"""Bytes of a number."""


def computed(name: str, values: NDArray[np.float32]) -> Source:
    """A tensor with these values."""
    data = values.astype("<f4").reshape(-1, values.shape[-1]).view(np.uint8)
    return Source(name, values.shape, "F32", lambda first, last: data[first:last])


def plus_one(source: Source) -> Source:
    """A tensor of float32 with 1 added to each value.

    As transformers does it; llama.cpp's converter adds in float16 where the checkpoint is float16.
    """

    return mapped(source, lambda values: values + np.float32(1))


def negative_exp(source: Source) -> Source:
    """A tensor of float32 with the value -exp(x) for each x, rounded once."""
    return mapped(source, lambda values: -np.exp(values.astype(np.float64)))


def mapped(source: Source, function: Callable[[NDArray[np.float32]], NDArray[np.floating]]) -> Source:
    """A tensor of float32 with the value of `function` for each value, infinite where it is too large for float32."""

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        with np.errstate(over="ignore"):  # the conversion refuses infinite values
            values = function(as_floats(source.rows(first, last), source.type)).astype(np.float32)
        return values.view(np.uint8)

    return replace(source, type="F32", rows=rows)


def rows_scaled(source: Source, factors: Sequence[NDArray[np.float32]]) -> Source:
    """A tensor of float32 whose rows are multiplied by their numbers of each of `factors`, one after the other."""

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        values = as_floats(source.rows(first, last), source.type)
        with np.errstate(over="ignore"):  # the conversion refuses infinite values
            for factor in factors:
                values = values * factor[first:last, None]
        return values.view(np.uint8)

    return replace(source, type="F32", rows=rows)


def reordered_rows(source: Source, order: NDArray[np.intp]) -> Source:
    """The rows `order` of a matrix."""
    rows = moved_rows([source.rows], lambda readers: reordered(readers[0], order))
    return replace(source, shape=(len(order), source.columns), rows=rows)


def reordered_columns(source: Source, order: NDArray[np.intp]) -> Source:
    """A tensor whose column i is column `order`[i] of another."""

    def read(first: int, last: int) -> NDArray[np.uint8]:
        numbers = source.rows(first, last).view(f"<u{WIDTHS[source.type]}")
        return np.ascontiguousarray(numbers[:, order]).view(np.uint8)

    return replace(source, rows=read)


def stacked(name: str, parts: Sequence[Source]) -> Source:
    """A tensor with one more dimension, made of `parts` of equal shape.

    Raises UnsupportedModelError for parts of different types.
    """
    shape, kind, each = parts[0].shape, parts[0].type, prod(parts[0].shape[:-1])
    for part in parts:
        if part.type != kind:
            raise UnsupportedModelError(
                f"tensor {printable(name)}: its parts are {kind} and {part.type}; get a checkpoint of one type"
            )

    rows = moved_rows([part.rows for part in parts], lambda readers: _joined(readers, each))
    return Source(name, (len(parts), *shape), kind, rows, max(part.held for part in parts))


def _joined(readers: Sequence[RowReader], each: int) -> RowReader:
    """A reader of the rows of all `readers`, which have `each` rows."""

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        found = []
        for number in range(first // each, -(-last // each)):
            start = number * each
            found.append(readers[number](max(first - start, 0), min(last - start, each)))
        return np.concatenate(found)

    return rows


def reshaped(source: Source, shape: tuple[int, ...]) -> Source:
    """The same numbers in another shape."""
    if shape[-1] == source.columns:
        return replace(source, shape=shape)
    before, after, width = source.columns, shape[-1], WIDTHS[source.type]

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        start, end = first * after, last * after
        read = source.rows(start // before, -(-end // before)).reshape(-1)
        skipped = start % before
        return read[skipped * width : (skipped + end - start) * width].reshape(last - first, -1)

    return replace(source, shape=shape, rows=rows)


def padded(source: Source, count: int) -> Source:
    """A matrix with rows of zeros behind its own, `count` rows in all."""
    own, row_bytes = source.row_count, source.columns * WIDTHS[source.type]

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        found = np.zeros((last - first, row_bytes), np.uint8)
        if first < own:
            found[: own - first] = source.rows(first, min(last, own))
        return found

    return replace(source, shape=(count, source.columns), rows=rows)


def as_floats(data: NDArray[np.uint8], kind: str) -> NDArray[np.float32]:
    """Bytes of F32, F16 or BF16 numbers as float32 of the same rows."""
    if kind == "BF16":
        return (data.view("<u2").astype("<u4") << 16).view(np.float32)
    return data.view("<f2" if kind == "F16" else "<f4").astype(np.float32)
