"""Biases, scaled sums with the residual stream, and the rows whose logits are wanted: the same bits as NumPy's."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants.layout import PIECE
from kquants.records import AddBiasOp, AddScaledOp, KeepOutputsOp
from support.activation_rows import ActivationRows, in_any_chunks, pieces
from support.kernels import batch_record, fenced, op_record, run_op, same_bits

F32 = np.float32
Array = NDArray[Any]


@pytest.mark.parametrize("chunk", [1, 3])
@pytest.mark.parametrize("n", [16, 256, 528])
@pytest.mark.parametrize("wanted", [[0, 1, 2, 3, 4, 5], [0, 2, 3, 5], [1, 5], [5], []])
def test_wanted_rows_are_kept(wanted: list[int], n: int, chunk: int) -> None:
    rows, outputs = np.random.default_rng(n).standard_normal((6, n)).astype(F32), np.array([*wanted, 99], np.int32)
    x, units = rows.copy(), pieces(n)
    op = op_record("keep_outputs", KeepOutputsOp(x=x, x_bytes=x[0].nbytes), units=units, outputs=True)
    run_op(op, batch_record(6, len(wanted), output_rows=outputs), units, chunk=chunk)
    assert same_bits(x[: len(wanted)], rows[wanted])
    assert same_bits(x[len(wanted) :], rows[len(wanted) :]), "nothing else was written"


@pytest.mark.parametrize("n", [1, 40, PIECE, 2 * PIECE + 24])
def test_a_bias_is_added_once(n: int) -> None:
    rng = np.random.default_rng(n)
    x, bias = rng.standard_normal((3, n)).astype(F32), rng.standard_normal(n).astype(F32)

    def run(chunk: int) -> list[ActivationRows]:
        y = ActivationRows(x)
        given = AddBiasOp(y=y.array, y_bytes=y.nbytes, bias=fenced(bias), n=n)
        run_op(op_record("add_bias", given), batch_record(3), 3 * pieces(n), chunk=chunk)
        return [y]

    (found,) = in_any_chunks(run, 3 * pieces(n))
    assert same_bits(found, x + bias)


@pytest.mark.parametrize("n", [1, 40, PIECE, 2 * PIECE + 24])
@pytest.mark.parametrize("scales", [(1.0, 0.22), (1.0, 1.0), (-0.7071, 12.0)])
@pytest.mark.parametrize("has_y", [True, False])
def test_scaled_sums(n: int, scales: tuple[float, float], has_y: bool) -> None:
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal((3, n)).astype(F32) for _ in range(2))

    def run(chunk: int) -> list[ActivationRows]:
        to, of = ActivationRows(x), ActivationRows(y)
        given = AddScaledOp(to.array, to.nbytes, of.array if has_y else 0, of.nbytes, n, *scales)
        run_op(op_record("add_scaled", given), batch_record(3), 3 * pieces(n), chunk=chunk)
        return [to, of]

    found, unchanged = in_any_chunks(run, 3 * pieces(n))
    scaled = F32(scales[0]) * x
    assert same_bits(found, scaled + F32(scales[1]) * y if has_y else scaled)
    assert same_bits(unchanged, y)
