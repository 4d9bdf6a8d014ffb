"""Activation functions, alone and times a second projection; gates and soft caps: against float64."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants.records import ActivationOp, SigmoidGateOp, SoftCapOp, SoftplusGateOp
from support.activation_rows import ActivationRows, in_any_chunks, pieces
from support.kernels import batch_record, fenced, guarded, op_record, run_op, same_bits
from support.quantized_targets import Targets

F32 = np.float32
Array = NDArray[Any]
EPSILON = 2.0**-24
"""The largest relative error of one rounding to float32."""
LARGEST_EXP = 1.6e38
"""Where the exponential function of kernels ends: what should be 0 is only tiny beyond."""

XIELU = tuple(float(F32(value)) for value in (0.8, 1.3, 0.5, -1e-6))
"""α_p, α_n, β and eps."""


def silu(z: Array) -> Array:
    return z / (1 + np.exp(-z))


def gelu(z: Array) -> Array:
    return z / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))


def gelu_erf(z: Array) -> Array:
    return z / 2 * np.array([math.erfc(-value / math.sqrt(2)) for value in z.ravel().tolist()]).reshape(z.shape)


def relu2(z: Array) -> Array:
    return np.maximum(z, 0) ** 2


def xielu(z: Array) -> Array:
    alpha_p, alpha_n, beta, eps = XIELU
    return np.where(z > 0, alpha_p * z**2, alpha_n * (np.expm1(np.minimum(z, eps)) - z)) + beta * z


def bound_of_silu(z: Array, y: Array) -> Array:
    return 6 * EPSILON * np.abs(y)


def bound_of_gelu(z: Array, y: Array) -> Array:
    """The rounding of the argument of the exponential function counts as often as that is large."""
    argument = 2 * math.sqrt(2 / math.pi) * np.abs(z + 0.044715 * z**3)
    return EPSILON * (6 + 4 * argument) * np.abs(y) + 1e-15 * np.abs(z)  # 1 + tanh loses that in float64


def bound_of_gelu_erf(z: Array, y: Array) -> Array:
    """1 + erf loses what is small beside 1."""
    return EPSILON * (1.5 * np.abs(z) + 2 * np.abs(y))


def bound_of_xielu(z: Array, y: Array) -> Array:
    """Below 0, terms as large as z cancel; near 0, those as large as eps."""
    return EPSILON * (3 * np.abs(z) + 4 * np.where(z > 0, np.abs(y), 3 * np.abs(z) + 1e-6))


Activation = tuple[Callable[[Array], Array], Callable[[Array, Array], Array]]
ACTIVATIONS: dict[str, Activation] = {
    "swiglu": (silu, bound_of_silu),
    "geglu": (gelu, bound_of_gelu),
    "geglu_erf": (gelu_erf, bound_of_gelu_erf),
    "relu2": (relu2, bound_of_silu),
    "xielu": (xielu, bound_of_xielu),
}
"""The function of each kernel in float64, and a bound of the error of float32."""


def activate(
    kernel: str, gate: Array, up: Array | None, targets: tuple[Any, Any] = (0, 0), chunk: int = 1
) -> ActivationRows:
    """The rows of gate after the op; `up` lies between other values."""
    rows, n = gate.shape
    to, wide = ActivationRows(gate), guarded((rows, 20 + n + 3), F32)
    if up is not None:
        wide[:, 20 : 20 + n] = up
    second = 0 if up is None else wide
    given = ActivationOp(to.array, to.nbytes, second, wide[0].nbytes, 80, n, *targets, *XIELU)
    run_op(op_record(kernel, given), batch_record(rows), rows * pieces(n), 1024, chunk=chunk)
    return to


@pytest.mark.parametrize("n", [1, 172, 1000])
@pytest.mark.parametrize("has_up", [True, False])
@pytest.mark.parametrize("kernel", ACTIVATIONS)
def test_activations(kernel: str, has_up: bool, n: int) -> None:
    rng = np.random.default_rng(n)
    gate, up = (rng.uniform(-1, 1, (5, n)) * 10.0 ** rng.integers(-3, 2, (5, n)) * 8 for _ in range(2))
    gate, up = gate.astype(F32), up.astype(F32)
    (h,) = in_any_chunks(lambda chunk: [activate(kernel, gate, up if has_up else None, chunk=chunk)], 5 * pieces(n))
    function, bound = ACTIVATIONS[kernel]
    z, factor = gate.astype(np.float64), up.astype(np.float64) if has_up else 1.0
    exact = function(z)
    assert (np.abs(h - exact * factor) <= np.abs(factor) * bound(z, exact) + EPSILON * np.abs(exact * factor)).all()


@pytest.mark.parametrize("kernel", ACTIVATIONS)
def test_activations_are_right_over_their_whole_range(kernel: str) -> None:
    gate = np.concatenate([np.linspace(-12, 12, 6000), np.geomspace(1e-30, 80, 1000), -np.geomspace(1e-30, 80, 1000)])
    function, bound = ACTIVATIONS[kernel]
    z = gate.astype(F32).astype(np.float64)
    exact, found = function(z), activate(kernel, z.reshape(8, 1000).astype(F32), None).values.ravel()
    error, allowed = np.abs(found - exact), bound(z, exact) + 80 / LARGEST_EXP
    print(f"{kernel}: at most {error.max():.2e} off, {np.nanmax(error / allowed):.2f} of what is allowed")
    assert (error <= allowed).all()


@pytest.mark.parametrize("n", [32, 256, 288])
@pytest.mark.parametrize("kernel", ACTIVATIONS)
def test_activations_are_quantized_instead(kernel: str, n: int) -> None:
    rng = np.random.default_rng(n)
    gate, up = (rng.uniform(-9, 9, (9, n)).astype(F32) for _ in range(2))
    to = Targets(9, n)
    unchanged = activate(kernel, gate, up, (to.q8, to.super_q8)).values
    assert same_bits(unchanged, gate)
    to.check(activate(kernel, gate, up).values)


@pytest.mark.parametrize("kernel", ACTIVATIONS)
def test_activations_at_the_edges(kernel: str) -> None:
    gate = np.array([[0.0, -0.0, 1e-40, 1e18, np.inf, np.nan, -1e18]], F32)
    found = activate(kernel, gate, None).values[0]
    with np.errstate(invalid="ignore", over="ignore"):
        exact = ACTIVATIONS[kernel][0](gate[0].astype(np.float64))
    assert np.isinf(found[4]) and np.isnan(found[5])
    assert np.allclose(found[[0, 1, 2, 3]], exact[[0, 1, 2, 3]], rtol=1e-6, atol=2e-6 if kernel == "xielu" else 1e-44)
    assert abs(found[6] - exact[6]) <= 1e-6 * abs(exact[6]) + 1e18 / LARGEST_EXP


@pytest.mark.parametrize("n", [1, 300])
def test_clamped_swiglu(n: int) -> None:
    """min(g, 7) · σ(1.702 · min(g, 7)) · (clamp(u, ±7) + 1)."""
    rng = np.random.default_rng(n)
    gate, up = (np.append(rng.uniform(-12, 12, 5 * n - 1), 7).reshape(5, n).astype(F32) for _ in range(2))

    def run(chunk: int) -> list[ActivationRows]:
        to = ActivationRows(gate)
        given = ActivationOp(to.array, to.nbytes, fenced(up), up[0].nbytes, 0, n, 0, 0, 7.0, 1.702, 0.0, 0.0)
        run_op(op_record("clamped_swiglu", given), batch_record(5), 5 * pieces(n), 1024, chunk=chunk)
        return [to]

    (found,) = in_any_chunks(run, 5 * pieces(n))
    g, u = np.minimum(gate.astype(np.float64), 7), np.clip(up.astype(np.float64), -7, 7)
    exact = g / (1 + np.exp(-float(F32(1.702)) * g)) * (u + 1)
    bound = np.abs(g / (1 + np.exp(-1.702 * g))) * EPSILON * (1 + np.abs(u + 1) * (9 + 2 * np.abs(g)))
    assert (np.abs(found - exact) <= bound).all()


def test_clamped_swiglu_keeps_nan() -> None:
    nan, one = F32(np.nan), F32(1)
    rows, up = ActivationRows(np.array([[nan, one, np.inf]], F32)), np.array([[one, nan, -np.inf]], F32)
    given = ActivationOp(rows.array, rows.nbytes, up, up.nbytes, 0, 3, 0, 0, 7.0, 1.702, 0.0, 0.0)
    run_op(op_record("clamped_swiglu", given), batch_record(1), 1, 1024)
    assert np.isnan(rows.values[0, :2]).all() and np.isclose(rows.values[0, 2], -42, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 300])
def test_a_gate_scales_by_its_sigmoid(n: int) -> None:
    rng = np.random.default_rng(n)
    x, gate = rng.standard_normal((5, n)).astype(F32), rng.uniform(-80, 80, (5, n)).astype(F32)

    def run(chunk: int) -> list[ActivationRows]:
        rows, by = ActivationRows(x), ActivationRows(gate)
        given = SigmoidGateOp(rows.array, rows.nbytes, by.array, by.nbytes, n)
        run_op(op_record("sigmoid_gate", given), batch_record(5), 5 * pieces(n), chunk=chunk)
        return [rows, by]

    found, unchanged = in_any_chunks(run, 5 * pieces(n))
    exact = x / (1 + np.exp(-gate.astype(np.float64)))
    assert (np.abs(found - exact) <= 5 * EPSILON * np.abs(exact)).all()
    assert same_bits(unchanged, gate)


@pytest.mark.parametrize(("n", "group"), [(1, 1), (300, 1), (96, 32), (60, 20), (3 * 300, 300)])
def test_a_gate_scales_by_its_softplus(n: int, group: int) -> None:
    rng = np.random.default_rng(n)
    x, gate = rng.standard_normal((5, n)).astype(F32), rng.uniform(-80, 80, (5, n // group)).astype(F32)
    units = 5 * (pieces(n) if group == 1 else n // group)

    def run(chunk: int) -> list[ActivationRows]:
        rows, by = ActivationRows(x), ActivationRows(gate)
        given = SoftplusGateOp(rows.array, rows.nbytes, by.array, by.nbytes, n, group)
        run_op(op_record("softplus_gate", given), batch_record(5), units, chunk=chunk)
        return [rows, by]

    found, unchanged = in_any_chunks(run, units)
    exact = x * np.repeat(np.logaddexp(0, gate.astype(np.float64)), group, axis=1)
    assert (np.abs(found - exact) <= 6 * EPSILON * np.abs(exact)).all()
    assert same_bits(unchanged, gate)


@pytest.mark.parametrize("n", [1, 300])
def test_a_row_is_scaled_by_the_sigmoid_of_one_value(n: int) -> None:
    rng = np.random.default_rng(n)
    x, gate = rng.standard_normal((5, n)).astype(F32), rng.uniform(-80, 80, (5, 1)).astype(F32)

    def run(chunk: int) -> list[ActivationRows]:
        to = ActivationRows(x)
        given = SigmoidGateOp(to.array, to.nbytes, fenced(gate), gate[0].nbytes, n)
        run_op(op_record("scale_by_sigmoid", given), batch_record(5), 5 * pieces(n), chunk=chunk)
        return [to]

    (found,) = in_any_chunks(run, 5 * pieces(n))
    exact = x / (1 + np.exp(-gate.astype(np.float64)))
    assert (np.abs(found - exact) <= 5 * EPSILON * np.abs(exact)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kernel", ["scale_by_sigmoid", "softplus_gate", "sigmoid_gate"])
def test_a_gate_that_is_no_number_leaves_other_rows_and_the_padding_as_they_are(kernel: str, bad: float) -> None:
    n = 40
    x, gate = np.ones((3, n), F32), np.zeros((3, n), F32)
    gate[1] = bad
    to, by = ActivationRows(x), ActivationRows(gate)
    words = (to.array, to.nbytes, by.array, by.nbytes, n)
    given = SoftplusGateOp(*words, 1) if kernel == "softplus_gate" else SigmoidGateOp(*words)
    run_op(op_record(kernel, given), batch_record(3), 3 * pieces(n))
    to.check()
    assert same_bits(to.values[0], to.values[2]) and np.isfinite(to.values[0]).all()
    assert not np.isnan(bad) or np.isnan(to.values[1]).all()


@pytest.mark.parametrize("n", [1, 320, 1000])
@pytest.mark.parametrize("cap", [5.0, 30.0])
def test_logits_are_capped(n: int, cap: float) -> None:
    rng = np.random.default_rng(n)
    y = (rng.standard_normal((3, n)) * 10.0 ** rng.integers(-6, 4, (3, n))).astype(F32)

    def run(chunk: int) -> list[ActivationRows]:
        rows = ActivationRows(y)
        given = SoftCapOp(rows.array, rows.nbytes, n, cap)
        run_op(op_record("soft_cap", given), batch_record(3), 3 * pieces(n), chunk=chunk)
        return [rows]

    (found,) = in_any_chunks(run, 3 * pieces(n))
    exact = cap * np.tanh(y.astype(np.float64) / cap)
    assert (np.abs(found - exact) <= 8 * EPSILON * np.abs(exact)).all()
    assert np.abs(found).max() <= cap
