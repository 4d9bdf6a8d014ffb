"""The types that a tensor may get: the bytes of each, and its error on a sample of the rows."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from converters.row_converter import RowConverter, importance_of, is_copied
from converters.tensors import PlannedTensor
from edgellm.system.folders import cache_folder
from kquants import FLOAT_FORMATS
from kquants.dequantize import dequantize
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


def candidates(tensor: PlannedTensor, converter: RowConverter) -> list[Candidate]:
    """The candidates for a tensor; its own type does not matter. Raises ModelFileError for weights of NaN or Inf."""
    samples = [(row, converter.floats(tensor.source, tensor.source.rows(row, row + 1))) for row in _sampled(tensor)]
    found = (replace(tensor, type=kind) for kind in types_for(tensor))
    return [
        Candidate(each.type, each.nbytes, sum(_error(each, *sample, converter) for sample in samples)) for each in found
    ]


def _sampled(tensor: PlannedTensor) -> list[int]:
    """The numbers of rows at even distances, of some matrices at even distances."""
    matrices, rows = tensor.source.row_count // tensor.source.shape[-2], tensor.source.shape[-2]
    wanted = max(_SAMPLED_ROWS, _SAMPLED_WEIGHTS // tensor.source.columns)
    some_rows = _spread(rows, min(rows, max(_SAMPLED_ROWS, wanted // matrices)))
    some_matrices = _spread(matrices, min(matrices, -(-wanted // _SAMPLED_ROWS)))
    return [matrix * rows + row for matrix in some_matrices for row in some_rows]


def _spread(total: int, count: int) -> list[int]:
    """`count` of the numbers below `total`, at even distances."""
    found: list[int] = np.linspace(0, total - 1, count).astype(int).tolist()
    return found


def _error(tensor: PlannedTensor, row: int, weights: NDArray[np.float32], converter: RowConverter) -> float:
    """The sum of the squared errors of a row, float32 [1, columns], weighted by the importance of columns."""
    if is_copied(tensor) or tensor.type.name in FLOAT_FORMATS:
        return 0.0
    encoded = converter.encode(tensor, row, weights)
    importance = importance_of(tensor, row)
    if importance is None:
        return encoded.error
    errors = dequantize(tensor.type, encoded.data.reshape(-1), cache_folder()) - weights[0]
    return float(np.square(errors, dtype=np.float64) @ importance)
