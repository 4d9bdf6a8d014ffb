"""RMSNorm and LayerNorm of rows, of heads and behind a block, against float64."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants.records import AddNormOp, HeadNormOp, NormOp
from support.activation_rows import ActivationRows, in_any_chunks
from support.kernels import batch_record, fenced, op_record, run_op
from support.quantized_targets import Targets

F32 = np.float32
Array = NDArray[Any]
Weights = Array | None
EPSILON = 2.0**-24
"""The largest relative error of one rounding to float32."""
NORMS = ["rms_norm", "layer_norm"]
BIASES = [("rms_norm", False), ("layer_norm", False), ("layer_norm", True)]


def address(weights: Weights) -> Any:
    """Weights as an argument: memory that ends with them, or null."""
    return 0 if weights is None else fenced(weights)


def exact(kind: str, x: Array, weight: Weights, bias: Weights, eps: float) -> tuple[Array, Array]:
    """(norm of the last axis in float64, a bound of the error of float32)."""
    wide = x.astype(np.float64)
    mean = wide.mean(axis=-1, keepdims=True) if kind == "layer_norm" else 0.0
    root = np.sqrt(((wide - mean) ** 2).mean(axis=-1, keepdims=True) + np.float64(F32(eps)))
    factor = np.ones(x.shape[-1]) if weight is None else weight.astype(np.float64)
    y = (wide - mean) / root * factor
    # n / 16 steps and four sums; those of squares are halved by the root; then a handful of single roundings.
    steps = x.shape[-1] / 16 + 5
    bound = (steps / 2 + 8) * np.abs(y)
    if kind == "layer_norm":
        bound = bound + np.abs(factor) * (steps * np.abs(wide).mean(axis=-1, keepdims=True)) / root
    if bias is not None:
        y = y + bias
        bound = bound + np.abs(y)
    return y, EPSILON * bound


def norm(
    kind: str, x: Array, weight: Weights, bias: Weights, eps: float, to: Targets | None = None, chunk: int = 1
) -> ActivationRows:
    """The norm of rows x: in place, or quantized and into rows of its own."""
    rows, n = ActivationRows(x), x.shape[1]
    h = ActivationRows(np.full_like(x, 9)) if to else rows
    q8, super_q8 = (to.q8, to.super_q8) if to else (0, 0)
    given = NormOp(rows.array, rows.nbytes, address(weight), address(bias), n, eps, h.array, h.nbytes, q8, super_q8)
    run_op(op_record(kind, given, per_row=1), batch_record(len(x)), len(x), chunk=chunk)
    rows.check()
    return h


@pytest.mark.parametrize("eps", [1e-5, 0.0, 0.5])
@pytest.mark.parametrize("n", [2, 15, 64, 172, 512])
@pytest.mark.parametrize(("kind", "has_bias"), BIASES)
@pytest.mark.parametrize("has_weight", [True, False])
def test_norms(kind: str, has_bias: bool, has_weight: bool, n: int, eps: float) -> None:
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((5, n)) + rng.integers(-2, 3, (5, 1))).astype(F32)
    weight, bias = (rng.standard_normal(n).astype(F32) if has else None for has in (has_weight, has_bias))
    (h,) = in_any_chunks(lambda chunk: [norm(kind, x, weight, bias, eps, chunk=chunk)], 5)
    wanted, bound = exact(kind, x, weight, bias, eps)
    assert (np.abs(h - wanted) <= bound).all()


@pytest.mark.parametrize("n", [64, 512])
@pytest.mark.parametrize("kind", NORMS)
def test_norms_are_written_as_floats_and_quantized(kind: str, n: int) -> None:
    rng = np.random.default_rng(n)
    x, weight = rng.standard_normal((9, n)).astype(F32), rng.standard_normal(n).astype(F32)
    bias = weight[::-1].copy() if kind == "layer_norm" else None
    to = Targets(9, n)
    h = norm(kind, x, weight, bias, 1e-5, to)
    h.check()
    wanted, bound = exact(kind, x, weight, bias, 1e-5)
    assert (np.abs(h.values - wanted) <= bound).all()
    to.check(h.values)
    # Without floats, they pass through scratch.
    alone, rows = Targets(9, n), ActivationRows(x)
    weights = address(weight), address(bias)
    given = NormOp(rows.array, rows.nbytes, *weights, n, 1e-5, 0, 0, alone.q8, alone.super_q8)
    run_op(op_record(kind, given, per_row=1), batch_record(9), 9, 4 * n)
    alone.check(h.values)


def test_the_variance_of_a_layer_norm_does_not_cancel() -> None:
    # mean(x²) - mean(x)² in float32 would be 0 here, or negative.
    x = (1000 + np.random.default_rng(1).standard_normal((3, 256)) * 1e-2).astype(F32)
    h = norm("layer_norm", x, None, None, 0.0).values
    assert np.abs(h.std(axis=1) - 1).max() < 1e-2
    assert np.abs(h - exact("layer_norm", x, None, None, 0.0)[0]).max() < 0.02


@pytest.mark.parametrize("kind", NORMS)
def test_rows_of_zeros_become_the_bias(kind: str) -> None:
    ones = np.ones(20, F32)
    x = np.zeros((2, 20), F32)
    assert not norm(kind, x, ones, None, 1e-5).values.any()
    if kind == "layer_norm":
        assert (norm(kind, x, ones, ones, 1e-5).values == 1).all()


@pytest.mark.parametrize("scale", [1.0, 0.22])
@pytest.mark.parametrize("n", [15, 172])
@pytest.mark.parametrize(("kind", "has_bias"), BIASES)
def test_the_norm_behind_a_block_is_added_to_its_residual(kind: str, has_bias: bool, n: int, scale: float) -> None:
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal((5, n)).astype(F32) for _ in range(2))
    weight, bias = rng.standard_normal(n).astype(F32), rng.standard_normal(n).astype(F32) if has_bias else None

    def run(chunk: int) -> list[ActivationRows]:
        to, of, weights = ActivationRows(x), ActivationRows(y), (address(weight), address(bias))
        given = AddNormOp(to.array, to.nbytes, of.array, of.nbytes, *weights, n, 1e-6, scale)
        run_op(op_record(f"add_{kind}", given, per_row=1), batch_record(5), 5, chunk=chunk)
        return [to, of]

    found, unchanged = in_any_chunks(run, 5)
    normed, bound = exact(kind, y, weight, bias, 1e-6)
    wanted = x + np.float64(F32(scale)) * normed
    assert (np.abs(found - wanted) <= scale * bound + EPSILON * (scale * np.abs(normed) + np.abs(wanted))).all()
    assert (unchanged == y).all()


HEADS = [(1, 172), (3, 64), (5, 40), (2, 1)]


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("weights", ["shared", "of each head", "none"])
@pytest.mark.parametrize(("heads", "head_dim"), HEADS)
@pytest.mark.parametrize("kernel", ["norm_heads", "layer_norm_heads"])
def test_each_head_is_normed_for_itself(kernel: str, heads: int, head_dim: int, weights: str, in_place: bool) -> None:
    rng, eps = np.random.default_rng(head_dim), 1e-6
    x = (rng.standard_normal((3, heads, head_dim)) * 10.0 ** rng.integers(-4, 9, (3, heads, 1))).astype(F32)
    weight = rng.standard_normal((heads if weights == "of each head" else 1, head_dim)).astype(F32)
    stride = head_dim if weights == "of each head" else 0

    def run(chunk: int) -> list[ActivationRows]:
        rows = ActivationRows(x.reshape(3, -1))
        to = rows if in_place else ActivationRows(np.zeros_like(rows.values))
        given = HeadNormOp(
            rows.array, rows.nbytes, to.array, to.nbytes, address(None if weights == "none" else weight), stride,
            head_dim, heads, eps,
        )  # fmt: skip
        run_op(op_record(kernel, given), batch_record(3), 3, chunk=chunk)
        rows.check()
        return [to]

    (found,) = in_any_chunks(run, 3)
    kind = "layer_norm" if kernel == "layer_norm_heads" else "rms_norm"
    for head in range(heads):
        own = None if weights == "none" else weight[head % len(weight)]
        wanted, bound = exact(kind, x[:, head], own, None, eps)
        assert (np.abs(found.reshape(x.shape)[:, head] - wanted) <= bound).all()
