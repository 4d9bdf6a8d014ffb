"""Sums of squares of the columns of rows: those of NumPy in float64, whatever units a thread takes."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants.records import SquareSumsOp
from support.activation_rows import ActivationRows
from support.kernels import GUARD, batch_record, guarded, op_record, run_op

Array = NDArray[Any]
ROWS = 7
GROUPS = [(2, 0), (0, 1), (4, 5)]
"""The matrix and the first row of each group of rows."""


def add_squares(sums: Array, counts: Array, x: Array, groups: list[tuple[int, int]]) -> None:
    """Add each row of x to the sums [5, n] of its matrix, in order."""
    for (matrix, first), end in zip(groups, [first for _, first in groups[1:]] + [len(x)], strict=True):
        for row in x[first:end].astype(np.float64):
            sums[matrix] += row**2
        counts[matrix] += end - first


@pytest.mark.parametrize("chunk", [1, 2, 99])
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("n", [3, 16, 40])
def test_sums_of_squares(n: int, groups: list[tuple[int, int]] | None, chunk: int) -> None:
    """Sums go on from what is there; values beyond the range of squares in float32 count."""
    x = np.random.default_rng(n).standard_normal((ROWS, n)).astype(np.float32) * np.float32(1e25)
    rows, padded = ActivationRows(x), -(-n // 16) * 16
    words = [len(GROUPS), *(word for group in GROUPS for word in group), 0, ROWS]
    listed, wanted = np.array(words, np.int64), groups or [(0, 0)]
    sums, counts = guarded((5, padded + 2), np.float64), np.zeros(5, np.int64)
    sums[:, :padded] = 0
    given = SquareSumsOp(
        x=rows.array,
        x_bytes=rows.nbytes,
        n=n,
        groups=listed if groups else 0,
        sums=sums,
        sums_bytes=sums[0].nbytes,
        counts=counts,
    )
    units = padded // 16 * len(wanted)
    for _ in range(2):
        run_op(op_record("square_sums", given, units=units), batch_record(ROWS), units, chunk=chunk)
    rows.check()
    wanted_sums, wanted_counts = np.zeros((5, n)), np.zeros(5, np.int64)
    for _ in range(2):
        add_squares(wanted_sums, wanted_counts, x, wanted)
    assert np.array_equal(sums[:, :n], wanted_sums)
    assert np.array_equal(counts, wanted_counts)
    assert (sums[:, padded:].copy().view(np.uint8) == GUARD).all(), "wrote past the sums"
    assert not sums[:, n:padded].any()
