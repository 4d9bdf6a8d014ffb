"""A matrix product's kernel, run on W and x in memory that shows what it must not touch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kquants.layout import PADDING_ROWS, TILE_ROWS, matmul_scratch
from kquants.records import MatmulGroup, MatmulOp, OpHeader, record_of_op
from support.kernels import GUARD, batch_record, fenced, guarded, op_record, run_op, same_bits

Array = NDArray[Any]
EXTRA = 24
"""Bytes or floats between rows that no kernel may touch."""


def beyond(x: Array) -> Array:
    """Rows of x and those behind them that a kernel may read, full of NaN, but must not use."""
    return np.vstack([x, np.full((PADDING_ROWS, x.shape[1]), 0xFF if x.dtype == np.uint8 else np.nan, x.dtype)])


def matmul(
    name: str,
    w: Array,
    columns: int,
    x: Array,
    x_bytes: int,
    tokens: int,
    before: Array | None,
    factor: Array | None = None,
) -> Array:
    """The kernel's y [tokens, rows of w], accumulated on `before`; checks that it wrote nothing else.

    `factor` is float32 [1].

    Tiles of W, which are its units, give the same alone and in a chunk, where several share the way to the rows of x.
    """
    rows = len(w)
    w, tiles = fenced(w), -(-rows // TILE_ROWS)
    results = list[Array]()
    for chunk in {1, tiles}:
        y = guarded((tokens, rows + EXTRA), np.float32)
        untouched = y[:, rows:].copy()
        if before is not None:
            y[:, :rows] = before
        arguments = MatmulOp(
            w=w,
            rows=rows,
            columns=columns,
            row_bytes=w[0].nbytes,
            x=x,
            x_bytes=x_bytes,
            y=y,
            y_bytes=y[0].nbytes,
            accumulate=int(before is not None),
            factors=0 if factor is None else factor,
        )
        op = op_record(f"matmul_{name.lower()}", arguments, units=tiles)
        run_op(op, batch_record(tokens), tiles, matmul_scratch(columns, name), chunk)
        assert same_bits(y[:, rows:].copy(), untouched), "wrote beside the output"
        results.append(y[:, :rows].copy())
    assert all(same_bits(result, results[0]) for result in results), "depends on the tiles beside it"
    return results[0]


def group_list(groups: Sequence[tuple[int, int]]) -> Array:
    """A GroupList of (matrix, rows)."""
    first = np.cumsum([0, *(rows for _, rows in groups)])
    records = [v for (matrix, _), row in zip(groups, first[:-1], strict=True) for v in MatmulGroup(matrix, row)]
    return np.array([len(groups), *records, *MatmulGroup(GUARD, first[-1])], np.int64)


def _in_turns(firsts: range) -> list[int]:
    """Every third one, then the others: chunks of a group follow those of others, as where threads help each other."""
    return [first for start in range(3) for first in firsts[start::3]]


def grouped_matmul(
    name: str,
    stack: Array,
    rows: int,
    columns: int,
    x: Array,
    x_bytes: int,
    groups: Sequence[tuple[int, int]],
    bias: Array | None = None,
    chunk: int = 1,
    factors: Array | None = None,
) -> Array:
    """The kernel's y [rows of all groups, rows]; `stack` is uint8 [matrices, stored rows, bytes], `bias` likewise.

    `factors` are float32 [matrices].

    Checks that the kernel wrote nothing else, and read nothing behind the stack.
    """
    stack, tiles, count = fenced(stack), -(-rows // TILE_ROWS), sum(n for _, n in groups)
    listed, y = group_list(groups), guarded((count, rows + EXTRA), np.float32)
    untouched = y[:, rows:].copy()
    arguments = MatmulOp(
        w=stack,
        rows=rows,
        columns=columns,
        row_bytes=stack[0, 0].nbytes,
        x=x,
        x_bytes=x_bytes,
        y=y,
        y_bytes=y[0].nbytes,
        accumulate=0,
        groups=listed,
        matrix_bytes=stack[0].nbytes,
        bias=0 if bias is None else bias,
        bias_bytes=0 if bias is None else bias[0].nbytes,
        factors=0 if factors is None else factors,
    )
    factor = listed.ctypes.data
    # Each row of the batch has one slot, so that there are as many rows as the groups have.
    op = op_record(f"matmul_{name.lower()}", arguments, units=tiles, units_factor=factor)
    run_op(op, batch_record(count), tiles * len(groups), matmul_scratch(columns, name), chunk, order=_in_turns)
    assert same_bits(y[:, rows:].copy(), untouched), "wrote beside the output"
    return y[:, :rows].copy()


def product_record(units: int = 0, **arguments: int) -> NDArray[np.int64]:
    """An op without a kernel, whose other arguments are 0."""
    given = MatmulOp(**{**dict.fromkeys(MatmulOp._fields, 0), **arguments})
    return np.array(
        record_of_op(OpHeader(kernel=0, units=units, units_per_row=0, outputs=0, barrier=0), given), np.int64
    )
