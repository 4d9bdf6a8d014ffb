"""Alternating updates and sparse activations, against float64, in any chunks."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants.records import CorrectStreamsOp, MatchMagnitudeOp, PredictStreamsOp, TopActivationsOp
from support.activation_rows import ActivationRows, in_any_chunks
from support.kernels import batch_record, fenced, op_record, run_op, same_bits

F32, ROWS, SCRATCH = np.float32, 5, 128
WIDTHS = pytest.mark.parametrize("n", [1, 16, 72])
Array = NDArray[Any]


def drawn(n: int, count: int) -> list[Array]:
    """`count` arrays float32 [ROWS, n]."""
    return list(np.random.default_rng(n).standard_normal((count, ROWS, n)).astype(F32))


@WIDTHS
def test_predictions_mix_the_streams(n: int) -> None:
    streams = drawn(n, 4)
    routed = 9 * np.random.default_rng(3).standard_normal((ROWS, 4)).astype(F32)
    coefficients = np.random.default_rng(4).standard_normal((16, 4)).astype(F32)

    def run(chunk: int) -> list[ActivationRows]:
        x = [ActivationRows(each) for each in streams]
        predicted, route = ActivationRows(0 * streams[0]), ActivationRows(routed)
        x_0, x_1, x_2, x_3, p_0 = (each.array for each in (*x, predicted))
        nbytes, weights = x[0].nbytes, fenced(coefficients)
        given = PredictStreamsOp(x_0, x_1, x_2, x_3, p_0, nbytes, n, route.array, route.nbytes, weights, 0.25)
        run_op(op_record("predict_streams", given), batch_record(ROWS), ROWS, SCRATCH, chunk)
        return [*x, predicted]

    *found, predicted = in_any_chunks(run, ROWS)
    x = np.stack(streams).astype(np.float64)
    mix = (np.tanh(0.25 * routed.astype(np.float64)) @ coefficients.astype(np.float64).T).reshape(ROWS, 4, 4)
    wanted = x + np.einsum("tji,itn->jtn", mix, x)
    assert np.abs(np.stack(found) - wanted).max() < 1e-5
    assert same_bits(predicted, found[0])


@WIDTHS
def test_corrections_spread_what_the_layer_changed(n: int) -> None:
    y, x_1, x_2, x_3, p_0 = drawn(n, 5)
    rng = np.random.default_rng(5)
    coefficients, scale = rng.standard_normal((4, 4)).astype(F32), rng.standard_normal(n).astype(F32)
    routed = rng.standard_normal((ROWS, 4)).astype(F32)

    def run(chunk: int) -> list[ActivationRows]:
        x = [ActivationRows(each) for each in (y, x_1, x_2, x_3, p_0, 0 * y)]
        route = ActivationRows(routed)
        to_x, to_1, to_2, to_3, old, scaled = (each.array for each in x)
        nbytes = x[0].nbytes
        weights = fenced(coefficients), fenced(scale)
        given = CorrectStreamsOp(
            to_x, to_1, to_2, to_3, old, scaled, nbytes, n, route.array, route.nbytes, *weights, 2.0
        )
        run_op(op_record("correct_streams", given), batch_record(ROWS), ROWS, SCRATCH, chunk)
        return x

    *found, kept, scaled = in_any_chunks(run, ROWS)
    factors = 1 + np.tanh(2 * routed.astype(np.float64)) @ coefficients.astype(np.float64).T
    wanted = [p + factors[:, j, None] * (y - p_0) for j, p in enumerate((p_0, x_1, x_2, x_3))]
    assert np.abs(np.stack(found) - wanted).max() < 1e-5
    assert same_bits(kept, p_0)
    assert same_bits(scaled, found[0] * scale)


@WIDTHS
@pytest.mark.parametrize("size", [1.0, 1e-4])
def test_magnitudes_match(n: int, size: float) -> None:
    x, y = drawn(n, 2)
    y *= F32(size)

    def run(chunk: int) -> list[ActivationRows]:
        of, given_y, to = ActivationRows(x), ActivationRows(y), ActivationRows(0 * x)
        given = MatchMagnitudeOp(of.array, given_y.array, to.array, of.nbytes, n)
        run_op(op_record("match_magnitude", given), batch_record(ROWS), ROWS, chunk=chunk)
        return [to, of, given_y]

    found, *unchanged = in_any_chunks(run, ROWS)
    square_x, square_y = ((each.astype(np.float64) ** 2).mean(1, keepdims=True) for each in (x, y))
    assert found == pytest.approx(y * np.sqrt(square_x / np.maximum(square_y, 1e-5)), rel=1e-5)
    assert same_bits(np.stack(unchanged), np.stack([x, y]))


@WIDTHS
@pytest.mark.parametrize("deviations", [1.6448535919189453, 0.25, -1.0])
def test_top_activations(n: int, deviations: float) -> None:
    (x,) = drawn(n, 1)
    x += F32(3)

    def run(chunk: int) -> list[ActivationRows]:
        rows = ActivationRows(x)
        given = TopActivationsOp(rows.array, rows.nbytes, n, deviations)
        run_op(op_record("top_activations", given), batch_record(ROWS), ROWS, chunk=chunk)
        return [rows]

    (found,) = in_any_chunks(run, ROWS)
    exact = x.astype(np.float64)
    cut = exact.mean(1, keepdims=True) + deviations * exact.std(1, keepdims=True)
    assert np.abs(found - np.maximum(exact - cut, 0)).max() < 1e-5
    assert n < 16 or deviations < 0 or (found == 0).mean() > 0.4
