"""The ops between the matmuls: quantization of activations, RMSNorm, SwiGLU, and the exponential function."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from kquants.layout import (
    LARGEST_SUM,
    PIECE,
    SUPER_GROUP_BYTES,
    quantized_bytes,
)
from kquants.records import ActivationOp, KeepOutputsOp, NormOp
from kquants.tuning import tuning
from support.kernels import batch_record, compile_kernel, guarded, op_record, padded_rows, run_op, same_bits
from support.quantized_rows import BlockRows, SuperRows
from support.quantized_targets import Targets, quantize

F32 = np.float32
Array = NDArray[Any]
EPSILON = 2.0**-24
"""The largest relative error of one rounding to float32."""


@pytest.mark.parametrize("n", [32, 256, 288, 1024])
def test_activations_are_quantized_as_documented(n: int) -> None:
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((9, n)) * 10.0 ** rng.integers(-30, 30, (9, 1))).astype(F32)
    quantize(x).check(x)
    uneven = np.ldexp(x, rng.integers(-6, 1, (9, n // 32)).repeat(32, axis=1)).astype(F32)
    quantize(uneven).check(uneven)


TIES = [127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, -126.5]
ROUNDED = [127, 0, 2, 2, 0, -2, -2, -126]


@pytest.mark.parametrize("n", [32, 256])  # a block by itself, and eight at once
def test_ties_go_to_even_and_extremes_stay_inside(n: int) -> None:
    x = np.zeros((4, n), F32)
    x[0].reshape(-1, 32)[:, :8] = TIES
    x[1] = np.where(np.arange(n) % 2, 3e38, -3.4028235e38)
    x[3] = -0.0
    to = quantize(x)
    q = to.q8[: 4 * quantized_bytes(n)].reshape(4, -1)[:, :n].view(np.int8)
    assert q[0].reshape(-1, 32)[:, :8].tolist() == [ROUNDED] * (n // 32)
    assert set(q[1].tolist()) == {-127, 112}
    assert not q[2:].any()
    to.check(x)


def test_ties_of_super_blocks_go_to_even() -> None:
    x, largest = np.zeros((1, 256), F32), tuning().activation_int8_max
    x[0].reshape(-1, 32)[:, :8] = [largest, *TIES[1:-1], 0.5 - largest]
    to = quantize(x)
    assert to.super_q8[256:260].view(F32) == 1 / 8, "else there are no ties"
    rounded = [largest, *ROUNDED[1:-1], -(largest - largest % 2)]
    assert to.super_q8[:256].view(np.int8).reshape(-1, 32)[:, :8].tolist() == [rounded] * 8
    to.check(x)


def test_the_largest_of_super_blocks_is_that_of_the_tuning() -> None:
    x = np.zeros((2, 256), F32)
    x[0, ::64], x[1, 1::64] = 3e38, -3e-30  # few enough for their sum not to matter
    to = quantize(x)
    q = to.super_q8[: 2 * SUPER_GROUP_BYTES].view(np.int8).reshape(2, -1)[:, :256]
    largest = tuning().activation_int8_max
    assert set(q[0].tolist()) == {0, largest} and set(q[1].tolist()) == {0, -largest}
    to.check(x)


@pytest.mark.parametrize("largest", [1e-45, 1e-40, 1.2e-38, 3.7e-37, 0.99e-36, 1.01e-36, 1.2e-34, 1.3e-34])
def test_tiny_blocks(largest: float) -> None:
    x = (np.linspace(-1, 1, 256, dtype=F32) * F32(largest)).reshape(1, 256)
    quantize(x).check(x)


def test_the_largest_super_blocks_are_finite_unless_a_half_adds_up_to_more() -> None:
    x = np.zeros((2, 768), F32)
    x[:, ::16] = F32(3.4e38) * F32(2.0) ** -(np.arange(48) % 16 // 2)
    x[1, 256 + 16 * 5 :][:2] = 3e38
    assert np.isnan(SuperRows.of(x).d).tolist() == [[False] * 3, [False, True, False]]
    assert set(SuperRows.of(x[:1]).exponents[0].tolist()) == {0, 1, 2, 3}
    quantize(x).check(x)


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 15, 16, 31, 255])
def test_nan_and_inf_show_in_the_scale_of_their_block_alone(bad: float, at: int) -> None:
    x = np.random.default_rng(1).standard_normal((2, 768)).astype(F32)
    x[1, 256 + at] = bad
    assert np.isnan(SuperRows.of(x).d).tolist() == [[False] * 3, [False, True, False]]
    assert np.flatnonzero(np.isnan(BlockRows.of(x).scales)).tolist() == [24 + 8 + at // 32]
    quantize(x).check(x)


@given(x=arrays(np.float32, 256, elements=st.floats(-1e6, 1e6, width=32)))
def test_super_blocks_lose_half_a_step_and_fit_their_products(x: Array) -> None:
    rows = SuperRows.of(x.reshape(1, 256))
    quantize(x.reshape(1, 256)).check(x.reshape(1, 256))
    assert np.abs(rows.q).max() <= tuning().activation_int8_max
    assert np.abs(rows.q).reshape(16, 16).sum(1).max() <= LARGEST_SUM
    steps = (rows.d * 2.0**rows.exponents).reshape(8, 1)
    error = np.abs(rows.q.reshape(8, 32) * steps - x.reshape(8, 32))
    assert (error <= 0.5001 * steps + 1e-33).all()


def rms_norm(x: Array, weight: Array, eps: float, wants_floats: bool = True) -> tuple[Array, Targets]:
    """(h, what it is quantized to) of the kernel over rows x."""
    count, n = x.shape
    buffer = padded_rows(x)
    h, to = guarded((count, buffer.shape[1]), F32), Targets(count, n)
    given = NormOp(
        x=buffer,
        x_bytes=buffer[0].nbytes,
        weight=weight,
        bias=0,
        n=n,
        eps=eps,
        h=h if wants_floats else 0,
        h_bytes=h[0].nbytes,
        q8=to.q8,
        super_q8=to.super_q8,
    )
    run_op(op_record("rms_norm", given, per_row=1), batch_record(count), count, -(-4 * n // 64) * 64)
    return h, to


@pytest.mark.parametrize("eps", [1e-5, 0.0, 0.5])
@pytest.mark.parametrize("n", [1, 15, 64, 172, 512])
def test_rms_norm(n: int, eps: float) -> None:
    rng = np.random.default_rng(n)
    x, weight = rng.standard_normal((9, n)).astype(F32), rng.standard_normal(n).astype(F32)
    h, to = rms_norm(x, weight, eps)
    wide = x.astype(np.float64)
    exact = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + np.array(eps, F32)) * weight
    # n / 16 fused steps and four sums, halved by the root; then a handful of single roundings.
    bound = ((n / 16 + 5) / 2 + 7) * EPSILON
    assert (np.abs(h[:, :n] - exact) <= bound * np.abs(exact)).all()
    assert same_bits(h[:, n:].copy(), np.zeros((9, -n % 16), F32)), "padding must be zero"
    to.check(h[:, :n])
    _, alone = rms_norm(x, weight, eps, wants_floats=False)
    alone.check(h[:, :n])


@pytest.mark.parametrize("chunk", [1, 3])
@pytest.mark.parametrize("n", [16, 256, 528])
@pytest.mark.parametrize("wanted", [[0, 1, 2, 3, 4, 5], [0, 2, 3, 5], [1, 5], [5], []])
def test_wanted_rows_are_kept(wanted: list[int], n: int, chunk: int) -> None:
    rows, outputs = np.random.default_rng(n).standard_normal((6, n)).astype(F32), np.array([*wanted, 99], np.int32)
    x, units = rows.copy(), -(-n // PIECE)
    op = op_record("keep_outputs", KeepOutputsOp(x=x, x_bytes=x[0].nbytes), units=units, outputs=True)
    run_op(op, batch_record(6, len(wanted), output_rows=outputs), units, chunk=chunk)
    assert same_bits(x[: len(wanted)], rows[wanted])
    assert same_bits(x[len(wanted) :], rows[len(wanted) :]), "nothing else was written"


def swiglu(gate: Array, up: Array, n: int, q8: Any = 0, super_q8: Any = 0) -> Array:
    rows, pieces = len(gate), -(-n // PIECE)
    gate, up = padded_rows(gate), padded_rows(up)
    nbytes = gate[0].nbytes
    given = ActivationOp(gate, nbytes, up, nbytes, 0, n, q8, super_q8, 0.0, 0.0, 0.0, 0.0)
    run_op(op_record("swiglu", given), batch_record(rows), rows * pieces, 4 * PIECE)
    return gate


def quantized_swiglu(gate: Array, up: Array, n: int) -> Targets:
    to = Targets(len(gate), n)
    swiglu(gate, up, n, to.q8, to.super_q8)
    return to


@pytest.mark.parametrize("n", [1, 172, 256, 1000, 1024])
def test_swiglu(n: int) -> None:
    rng = np.random.default_rng(n)
    gate, up = (rng.uniform(-80, 80, (9, n)).astype(F32) for _ in range(2))
    h = swiglu(gate, up, n)
    z = gate.astype(np.float64)
    exact = z / (1 + np.exp(-z)) * up
    assert (np.abs(h[:, :n] - exact) <= 6 * EPSILON * np.abs(exact)).all()
    assert same_bits(h[:, n:].copy(), np.zeros((9, -n % 16), F32)), "padding must be zero"
    if n % 32 == 0:
        quantized_swiglu(gate, up, n).check(h[:, :n])


def test_swiglu_at_the_edges() -> None:
    gate = np.array([[0.0, -0.0, 1e-40, 100.0, 3e38, np.inf, np.nan, -90.0, -1e30]], F32)
    h = swiglu(gate, np.ones_like(gate), 9)
    assert np.array_equal(h[0, :7], np.array([0, -0.0, 5e-41, 100, 3e38, np.inf, np.nan], F32), equal_nan=True)
    # exp stops at 1.6e38, so what should be 0 is only tiny.
    assert (np.abs(h[0, 7:9]) <= np.abs(gate[0, 7:9]) / 1.6e38).all()


@pytest.fixture(scope="module")
def exp() -> Any:
    """`kquants.activations.exponential.exp` as a kernel of its own, over float32 arrays of 16 n values."""
    from kquants.activations.exponential import exp as exp_of_lanes
    from kquants.simd import load_f32x16, store_f32x16

    @compile_kernel
    def every_lane(x: int, n: int, y: int) -> None:
        for k in range(0, 4 * n, 64):
            store_f32x16(y + k, exp_of_lanes(load_f32x16(x + k)))

    def call(x: Array) -> Array:
        y = np.empty_like(x)
        every_lane(x.ctypes.data, len(x), y.ctypes.data)
        return y

    return call


def test_exp_is_within_two_units_in_the_last_place(exp: Any) -> None:
    # Every 211th float32 between 2^-30 and the end of the range, both signs: 5 million values.
    for last, sign in ((88.0, 1), (87.33, -1)):
        ends = np.array([2**-30, last], F32).view(np.uint32).tolist()
        bits = np.arange(ends[0], ends[1], 211, dtype=np.uint32)
        x = F32(sign) * bits[: len(bits) & ~15].view(F32)
        exact = np.exp(x.astype(np.float64))
        error = np.abs(exp(x) - exact) / np.spacing(exact.astype(F32)).astype(np.float64)
        print(f"exp: at most {error.max():.3f} units in the last place, at {x[error.argmax()]}")
        assert error.max() <= 2


def test_exp_at_the_edges(exp: Any) -> None:
    x = np.array([0, -0.0, 1e-45, -1e-45, -87.7, -88, -104, -1e30, -np.inf, np.nan, -np.nan, 89, np.inf] + [0] * 3, F32)
    y = exp(x)
    assert y[:4].tolist() == [1, 1, 1, 1]
    assert same_bits(y[4:9], np.zeros(5, F32)), "no negative zero and no denormal below -87.69"
    assert np.isnan(y[9:11]).all()
    assert y[11] == y[12] == exp(np.full(16, 88, F32))[0]
    # The same beside other values: a lane does not depend on the others.
    assert same_bits(y, np.concatenate([exp(np.full(16, value, F32))[:1] for value in x]))
