"""Rows of weights to blocks whose errors make good for each other, as `converters.gptq.feedback` explains."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from converters.gptq.code_layouts import CODE_LAYOUTS
from kquants.encode import Encoded, NotEncodableError, encode
from kquants.ggml import GGMLType
from kquants.round_columns import LANES, round_columns

Floats = NDArray[np.float32]

_TOGETHER = 256
"""Columns, whole blocks, that get the errors of all columns before them in one matrix product."""


def compensated(kind: GGMLType, weights: Floats, passed_on: Floats, importance: Floats, folder: Path) -> Encoded:
    """The blocks for `weights`, float32 [rows, columns], as `kquants.encode.encode` returns them.

    `passed_on` is the `feedback` of the matrix's inputs. The scales of a block are those that the encoder chooses for
    its weights after compensation, with `importance`, float32 [columns]; then each weight gets the nearest code, one
    column after the other. Raises NotEncodableError for a weight that is NaN or too large, perhaps only after
    compensation, and KernelError.
    """
    rows, columns = weights.shape
    layout, size = CODE_LAYOUTS[kind.name], kind.block
    padded = np.zeros((columns, -(-rows // LANES) * LANES), np.float32)
    padded[:, :rows] = weights.T  # the values of a column are adjacent
    errors = np.zeros_like(padded)
    data = np.empty((rows, columns // size, kind.nbytes), np.uint8)
    for start in range(0, columns, _TOGETHER):
        end = min(start + _TOGETHER, columns)
        targets = padded[start:end] + passed_on[:start, start:end].T @ errors[:start]
        for first in range(start, end, size):
            own = slice(first, first + size)
            target = targets[first - start : first - start + size] + passed_on[start:first, own].T @ errors[start:first]
            blocks = _encoded(kind, target, first, columns, folder, importance[own])
            scales, shifts = (np.ascontiguousarray(each.T) for each in layout.values(blocks, folder))
            shares = np.ascontiguousarray(passed_on[own, own].T)
            codes, errors[own] = round_columns(padded[own], target, scales, shifts, shares, layout.levels, folder)
            data[:, first // size] = layout.pack(blocks, codes.T)[:rows]
    error, squares = (float(np.square(each, dtype=np.float64).sum()) for each in (errors, weights))
    return Encoded(data.reshape(rows, -1), error, squares)


def _encoded(
    kind: GGMLType, target: Floats, first: int, columns: int, folder: Path, importance: Floats
) -> NDArray[np.uint8]:
    """The blocks of `target`, float32 [block, rows], the columns of a matrix from `first` on."""
    try:
        return encode(kind, np.ascontiguousarray(target.T), folder, importance).data
    except NotEncodableError as error:
        row, column = divmod(error.index, len(target))
        raise NotEncodableError(kind, row * columns + first + column, error.value) from None
