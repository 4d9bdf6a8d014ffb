"""Products with float weights are close to the exact sum, and the same whatever else is computed beside them."""

from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from kquants import FLOAT_FORMATS
from kquants.layout import FLOAT_ROWS, SLICE_ROWS, matmul_scratch
from kquants.records import MatmulOp
from kquants.simd import HAS_BF16_PAIRS
from support.kernels import batch_record, guarded, op_record, padded_rows, run_op, same_bits
from support.matmul import EXTRA, beyond, matmul

F32 = np.float32
Array = NDArray[Any]


def float_weights(name: str, values: Array) -> tuple[Array, Array]:
    """(the rows in a float format, their values as float64)."""
    data = gguf.quants.quantize(values.astype(F32), Type[name])
    return data, gguf.quants.dequantize(data, Type[name]).reshape(values.shape).astype(np.float64)


def float_ops(name: str, w: Array, x: Array, tokens: int, before: Array | None = None) -> Array:
    padded = beyond(np.hstack([padded_rows(x), np.full((len(x), EXTRA), np.nan, F32)]))
    return matmul(name, w, x.shape[1], padded, padded[0].nbytes, tokens, before)


FLOAT_CASES = [(1, 1), (16, 17), (40, 64), (17, 172), (33, 256), (5, 15), (3, 16), (70, 1040)]


@pytest.mark.parametrize(("rows", "columns"), FLOAT_CASES)
@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_float_matmul_of_small_integers_are_exact(name: str, rows: int, columns: int) -> None:
    rng = np.random.default_rng(columns)
    w, values = float_weights(name, rng.integers(-50, 51, (rows, columns)))
    x = rng.integers(-50, 51, (17, columns))
    before = rng.integers(-99, 99, (17, rows)).astype(F32)
    for tokens in (1, 2, 3, 4, 5, 17):
        exact = (x[:tokens] @ values.T).astype(F32)
        assert np.array_equal(float_ops(name, w, x, tokens), exact)
        assert np.array_equal(float_ops(name, w, x, tokens, before[:tokens]), exact + before[:tokens])


@pytest.mark.parametrize(("rows", "columns"), FLOAT_CASES)
@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_float_matmul_round_once_a_step(name: str, rows: int, columns: int) -> None:
    rng = np.random.default_rng(columns)
    w, values = float_weights(name, rng.standard_normal((rows, columns)))
    tokens = SLICE_ROWS  # the last register tile is not whole
    x = rng.standard_normal((tokens, columns)).astype(F32)
    # A lane takes columns / 16 fused steps, and four more add up the 16 lanes; each rounds by 2^-24 at most.
    steps = -(-columns // 16) + 4
    bound = 1.01 * steps * 2.0**-24 * (np.abs(x) @ np.abs(values).T)
    many, before = float_ops(name, w, x, tokens), rng.standard_normal((tokens, rows)).astype(F32)
    assert same_bits(float_ops(name, w, x, tokens, before), before + many)
    meant = float_weights("BF16", x)[1] if name == "BF16" and HAS_BF16_PAIRS else x.astype(np.float64)
    assert (np.abs(many - meant @ values.T) <= bound).all()
    for fewer in (1, 2, 3, 4, 43, FLOAT_ROWS + 1, 2 * FLOAT_ROWS + 8):
        assert same_bits(float_ops(name, w, x, fewer), many[:fewer]), "depends on the number of rows"
    more = np.vstack([x, x, x[:9]])  # three slices of them
    assert same_bits(float_ops(name, w, more, len(more)), np.vstack([many, many, many[:9]]))


@pytest.mark.parametrize("columns", [40, 1029])  # few, and a few more than are packed at once
@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_float_matmul_keep_inf_and_nan(name: str, columns: int) -> None:
    w, _ = float_weights(name, np.ones((16, columns)))
    x = np.ones((5, columns), F32)
    x[1, -1], x[2, 3], x[3, 0], x[3, 1] = np.inf, np.nan, np.inf, -np.inf
    for tokens in (1, 3, 4, 5):
        y = float_ops(name, w, x, tokens)
        assert np.array_equal(y[:, 0], [columns, np.inf, np.nan, np.nan, columns][:tokens], equal_nan=True)


@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_what_lies_behind_the_last_packed_column_does_not_count(name: str) -> None:
    # Columns 1024 … 1028 are packed where 0 … 4 were, or 512 … 516 or 768 … 772: an Inf eight columns further on is
    # still behind them.
    values = np.ones((16, 1029))
    values[:, [8, 520, 776]] = np.inf
    w, _ = float_weights(name, values)
    x = np.ones((43, 1029), F32)
    for tokens in (1, 5, 43):
        assert (float_ops(name, w, x, tokens) == np.inf).all()


def test_only_the_rows_of_the_outputs_are_computed() -> None:
    # An op over the outputs reads their count from the batch, here 2 of 5 rows.
    w, values = float_weights("F32", np.arange(16 * 16).reshape(16, 16) % 7)
    x, y = np.eye(5, 16, dtype=F32), guarded((5, 16), F32)
    given = MatmulOp(w=w, rows=16, columns=16, row_bytes=64, x=x, x_bytes=64, y=y, y_bytes=64, accumulate=0)
    op = op_record("matmul_f32", given, units=1, outputs=True)
    run_op(op, batch_record(5, outputs=2), 1, matmul_scratch(16, "F32"))
    assert np.array_equal(y[:2], values.T[:2])
    assert same_bits(y[2:].copy(), guarded((3, 16), F32))
