"""Products of groups of rows with the matrices of a stack, compared with those of each matrix alone."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kquants import FLOAT_FORMATS
from kquants.layout import SLICE_ROWS
from support.documented_matmul import some_weights
from support.kernels import padded_rows, same_bits
from support.matmul import beyond, grouped_matmul, matmul
from support.quantized_rows import Rows, buffer_of, rows_for

F32 = np.float32
Array = NDArray[Any]
Groups = tuple[tuple[int, int], ...]
"""(matrix, rows) of groups in the order of their rows."""

GROUPS: Groups = ((3, 1), (0, 0), (1, 2), (4, 7), (2, 40), (0, 1))
"""Of no rows, few, and many; two of them by the same matrix."""

ROWS, STORED_ROWS = 37, 40
"""Rows of a matrix, which are no whole tiles, and those that are stored of each."""


class Given(NamedTuple):
    """A stack of matrices uint8 [matrices, stored rows, bytes], its biases, and the x of all rows."""

    stack: Array
    bias: Array
    x: Array | Rows

    def x_of(self, first: int, last: int) -> tuple[Array, int]:
        """What a product of some rows is given, and bytes from one to the next where they do not lie in groups."""
        if isinstance(self.x, np.ndarray):
            padded = beyond(padded_rows(self.x[first:last]))
            return padded, padded[0].nbytes
        parts = {part: values[first:last] for part, values in vars(self.x).items()}
        return buffer_of(replace(self.x, **parts), last - first), 0


def some_given(name: str, columns: int, groups: Groups) -> Given:
    """Random ones."""
    rng, count = np.random.default_rng(columns), sum(rows for _, rows in groups)
    matrices = max(matrix for matrix, _ in groups) + 1
    bias = rng.standard_normal((matrices, STORED_ROWS)).astype(F32)
    if name not in FLOAT_FORMATS:
        w = some_weights(rng, name, matrices * STORED_ROWS, columns)
        return Given(w.reshape(matrices, STORED_ROWS, -1), bias, rows_for(name).random(rng, count, columns))
    values = rng.standard_normal((matrices, STORED_ROWS, columns)).astype(F32)
    raw: dict[str, Array] = {
        "F32": values,
        "F16": values.astype(np.float16),
        "BF16": (values.view(np.uint32) >> 16).astype(np.uint16),
    }
    return Given(raw[name].view(np.uint8), bias, rng.standard_normal((count, columns)).astype(F32))


def check_groups(name: str, columns: int, groups: Groups, chunks: Iterable[int], kernel: str | None = None) -> None:
    """Compare with products of each matrix alone, without and with biases and factors; the kernel is that of `name`.

    The products alone have no more than a slice of rows.
    """
    kernel = kernel or name
    given, alone, biases, t = some_given(name, columns, groups), list[Array](), list[Array](), 0
    factors = np.linspace(-0.7, 1.3, len(given.stack), dtype=F32)
    of_rows = np.concatenate([factors[[matrix] * rows] for matrix, rows in groups])[:, None]
    for matrix, rows in groups:
        for first in range(t, t + rows, SLICE_ROWS):
            count = min(SLICE_ROWS, t + rows - first)
            x, x_bytes = given.x_of(first, first + count)
            alone.append(matmul(kernel, given.stack[matrix, :ROWS], columns, x, x_bytes, count, None))
        if rows:
            biases.append(given.bias[matrix : matrix + 1, :ROWS].repeat(rows, 0))
        t += rows
    wanted, (x, x_bytes) = np.vstack(alone), given.x_of(0, t)
    for chunk in chunks:
        y = grouped_matmul(kernel, given.stack, ROWS, columns, x, x_bytes, groups, None, chunk)
        assert same_bits(y, wanted)
        y = grouped_matmul(kernel, given.stack, ROWS, columns, x, x_bytes, groups, given.bias, chunk)
        assert same_bits(y, wanted + np.vstack(biases))
        y = grouped_matmul(kernel, given.stack, ROWS, columns, x, x_bytes, groups, given.bias, chunk, factors)
        assert same_bits(y, of_rows * wanted + np.vstack(biases))
