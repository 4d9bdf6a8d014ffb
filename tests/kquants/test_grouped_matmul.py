"""Products of groups of rows, each with a matrix of a stack, have the bits of each matrix's own product."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants import FLOAT_FORMATS
from support.kernels import padded_rows, same_bits
from support.matmul import beyond, grouped_matmul, matmul

F32 = np.float32
Array = NDArray[Any]

GROUPS = ((3, 1), (0, 0), (1, 2), (4, 7), (2, 40), (0, 1))
"""(matrix, rows) of groups in the order of their rows: none, few, and many; two of them by the same matrix."""

ROWS, STORED_ROWS = 37, 40
"""Rows of a matrix, which are no whole tiles, and those that are stored of each."""


class Given(NamedTuple):
    """A stack of matrices uint8 [matrices, stored rows, bytes], its biases, and the x of all rows."""

    stack: Array
    bias: Array
    x: Array


def floats_given(name: str, columns: int, rng: np.random.Generator) -> Given:
    """Random ones, of a float format."""
    size = 4 if name == "F32" else 2
    values = rng.standard_normal((5 * STORED_ROWS, columns)).astype(F32)
    raw = {"F32": values, "F16": values.astype(np.float16), "BF16": (values.view(np.uint32) >> 16).astype(np.uint16)}
    stack = raw[name].view(np.uint8).reshape(5, STORED_ROWS, size * columns)
    x = rng.standard_normal((sum(rows for _, rows in GROUPS), columns)).astype(F32)
    return Given(stack, rng.standard_normal((5, STORED_ROWS)).astype(F32), x)


@pytest.mark.parametrize("columns", [64, 172, 1040])
@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_groups_of_rows_have_the_bits_of_their_matrices_alone(name: str, columns: int) -> None:
    given = floats_given(name, columns, np.random.default_rng(columns))
    x, alone, t = padded_rows(given.x), list[Array](), 0
    for matrix, rows in GROUPS:
        if rows:
            own = beyond(x[t : t + rows])
            alone.append(matmul(name, given.stack[matrix, :ROWS], columns, own, own[0].nbytes, rows, None))
        t += rows
    wanted, all_x = np.vstack(alone), beyond(x)
    biases = np.vstack([given.bias[matrix : matrix + 1, :ROWS].repeat(rows, 0) for matrix, rows in GROUPS])
    for chunk in (1, 4, 100):
        y = grouped_matmul(name, given.stack, ROWS, columns, all_x, all_x[0].nbytes, GROUPS, None, chunk)
        assert same_bits(y, wanted)
        y = grouped_matmul(name, given.stack, ROWS, columns, all_x, all_x[0].nbytes, GROUPS, given.bias, chunk)
        assert same_bits(y, wanted + biases)
