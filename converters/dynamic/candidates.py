"""The types that a tensor may get: the bytes of each, and its error on a sample of the rows."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from converters.tensors import PlannedTensor
from edgellm.system.folders import cache_folder
from kquants import FLOAT_FORMATS
from kquants.dequantize import dequantize
from kquants.encode import encode
from kquants.ggml import NAMED_TYPES, GGMLType

_TYPES = ("Q2_K", "IQ3_S", "Q3_K", "IQ4_XS", "Q4_K", "Q5_K", "Q6_K", "Q8_0")
_WITH_IMPORTANCE = ("IQ2_XS", "IQ3_XXS")
"""Types that need an importance matrix."""

_OF_NARROW_ROWS = ("IQ4_NL", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
"""Types of rows that are no multiple of 256."""

_SAMPLED_WEIGHTS, _SAMPLED_ROWS = 1 << 19, 16
"""Weights of a tensor whose errors are computed, and the least rows of a matrix of which some are."""


class Candidate(NamedTuple):
    """A type, the bytes that a tensor takes in it, and the weighted squared error of the sampled rows."""

    type: GGMLType
    nbytes: int
    error: float


def types_for(tensor: PlannedTensor) -> list[GGMLType]:
    """The types that a tensor may get, by its columns and whether the importance of these is known."""
    wide = (*_TYPES, *(_WITH_IMPORTANCE if tensor.importance is not None else ()))
    types = [NAMED_TYPES[name] for name in (*wide, *_OF_NARROW_ROWS)]
    columns = tensor.source.columns
    fitting = [kind for kind in types if columns % kind.block == 0]
    return [kind for kind in fitting if columns % 256 or kind.name in wide] or [NAMED_TYPES["F16"]]


def candidates(tensor: PlannedTensor) -> list[Candidate]:
    """The candidates for a tensor; its own type does not matter."""
    samples = list(_samples(tensor))
    rows, columns = tensor.source.row_count, tensor.source.columns
    return [
        Candidate(kind, rows * kind.row_bytes(columns), sum(_error(kind, *sample) for sample in samples))
        for kind in types_for(tensor)
    ]


def weights(tensor: PlannedTensor, first: int, last: int) -> NDArray[np.float32]:
    """Rows first … last - 1 of the source, float32 [rows, columns]."""
    data = tensor.source.rows(first, last)
    found = dequantize(NAMED_TYPES[tensor.source.type], data.reshape(-1), cache_folder())
    return found.reshape(last - first, tensor.source.columns)


def importance_of(tensor: PlannedTensor, row: int) -> NDArray[np.float32] | None:
    """The importance of the columns of the matrix that has a row; None if it is not known."""
    if tensor.importance is None:
        return None
    found: NDArray[np.float32] = tensor.importance[row * len(tensor.importance) // tensor.source.row_count]
    return found


def _samples(tensor: PlannedTensor) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32] | None]]:
    """Rows at even distances of some matrices at even distances, each with the importance of its columns."""
    source = tensor.source
    matrices, rows = source.row_count // source.shape[-2], source.shape[-2]
    wanted = max(_SAMPLED_ROWS, _SAMPLED_WEIGHTS // source.columns)
    for matrix in _spread(matrices, min(matrices, -(-wanted // _SAMPLED_ROWS))):
        first, count = matrix * rows, max(_SAMPLED_ROWS, wanted // matrices)
        found = [weights(tensor, first + row, first + row + 1) for row in _spread(rows, min(rows, count))]
        yield np.concatenate(found), importance_of(tensor, first)


def _spread(total: int, count: int) -> list[int]:
    """`count` of the numbers below `total`, at even distances."""
    found: list[int] = np.linspace(0, total - 1, count).astype(int).tolist()
    return found


def _error(kind: GGMLType, rows: NDArray[np.float32], importance: NDArray[np.float32] | None) -> float:
    """The sum of the squared errors of rows, weighted by the importance of columns."""
    if kind.name in FLOAT_FORMATS:
        return 0.0
    encoded = encode(kind, rows, cache_folder(), importance)
    if importance is None:
        return encoded.error
    errors = dequantize(kind, encoded.data.reshape(-1), cache_folder()).reshape(rows.shape) - rows
    return float((errors * errors).sum(axis=0, dtype=np.float64) @ importance)
