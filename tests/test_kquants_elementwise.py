"""The ops between the products: quantization of activations, RMSNorm, SwiGLU, and the exponential function."""

from typing import Any

import numpy as np
import pytest
from kernels import batch_record, call_address, guarded, op_record, padded_rows, run_op, same_bits
from numpy.typing import NDArray

from kquants.layout import PIECE, quantized_bytes

F32 = np.float32
Array = NDArray[Any]
EPSILON = 2.0**-24
"""The largest relative error of one rounding to float32."""


def quantized(x: Array) -> tuple[Array, Array, Array]:
    """(q int8 [rows, n], scales float32 and sums int32 [rows, blocks]) as `kquants.activations` documents it."""
    blocks = x.astype(F32).reshape(len(x), -1, 32)
    with np.errstate(all="ignore"):
        largest = np.abs(blocks).max(axis=2)
        inverse = np.where(largest >= 1e-36, F32(127) / largest, F32(0)).astype(F32)
        q = np.rint(blocks * inverse[:, :, None])
        scales = np.where(np.isfinite(largest), largest / F32(127), np.nan).astype(F32)
    whole = np.where(np.isfinite(q), q, 0).astype(np.int8)
    return whole.reshape(x.shape), scales, whole.sum(axis=2, dtype=np.int32)


def split(q: Array, n: int) -> tuple[Array, Array, Array]:
    """The same of rows that a kernel wrote."""
    words = q[:, n : quantized_bytes(n)].reshape(len(q), -1, 5, 4).copy().view(np.int32)[..., 0]
    scales, scaled_sums = words[..., 0].copy().view(F32), words[..., 1].copy().view(F32)
    sums = -words[..., 2]
    real = ~np.isnan(scales)
    with np.errstate(over="ignore"):
        assert np.array_equal(scaled_sums[real], (scales * sums.astype(F32))[real])
    values = q[:, :n].copy().view(np.int8)
    halves = values.reshape(len(q), -1, 2, 16).sum(axis=3, dtype=np.int32)
    assert np.array_equal(-words[..., 3:][real], halves[real])
    return values, scales, sums


def assert_quantized(q: Array, x: Array) -> None:
    n = x.shape[1]
    values, scales, sums = split(q, n)
    wanted, wanted_scales, wanted_sums = quantized(x)
    assert same_bits(scales, wanted_scales)
    real = ~np.isnan(scales)  # with a NaN for a scale, the rest of a block says nothing
    assert np.array_equal(values.reshape(*real.shape, 32)[real], wanted.reshape(*real.shape, 32)[real])
    assert np.array_equal(sums[real], wanted_sums[real])
    assert (q[:, quantized_bytes(n) :] == guarded((1,), np.uint8)).all(), "wrote past the row"


def quantize(x: Array) -> Array:
    rows, n = x.shape
    q, pieces = guarded((rows, quantized_bytes(n) + 12), np.uint8), -(-n // PIECE)
    run_op(op_record("quantize", x, x[0].nbytes, n, q, q[0].nbytes), batch_record(rows), rows * pieces)
    return q


@pytest.mark.parametrize("n", [32, 256, 288, 1024])
def test_activations_are_quantized_as_documented(n: int) -> None:
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((5, n)) * 10.0 ** rng.integers(-30, 30, (5, 1))).astype(F32)
    assert_quantized(quantize(x), x)


def test_ties_go_to_even_and_extremes_stay_inside() -> None:
    x = np.zeros((3, 32), F32)
    x[0, :8] = 127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, -126.5
    x[1] = np.where(np.arange(32) % 2, 3e38, -3.4028235e38)
    q = quantize(x)
    assert q[0, :8].view(np.int8).tolist() == [127, 0, 2, 2, 0, -2, -2, -126]
    assert set(q[1, :32].view(np.int8).tolist()) == {-127, 112}
    assert q[2, :40].tolist() == [0] * 40
    assert_quantized(q, x)


@pytest.mark.parametrize("largest", [1e-45, 1e-40, 1.2e-38, 3.7e-37, 0.99e-36, 1.01e-36])
def test_tiny_blocks(largest: float) -> None:
    x = (np.linspace(-1, 1, 64, dtype=F32) * F32(largest)).reshape(1, 64)
    assert_quantized(quantize(x), x)


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 15, 16, 31])
def test_nan_and_inf_show_in_the_scale_of_their_block_alone(bad: float, at: int) -> None:
    x = np.random.default_rng(1).standard_normal((2, 96)).astype(F32)
    x[1, 32 + at] = bad
    q = quantize(x)
    assert np.isnan(split(q, 96)[1]).tolist() == [[False] * 3, [False, True, False]]
    assert_quantized(q, x)


def rms_norm(x: Array, weight: Array, eps: float, output_rows: list[int] | None = None) -> tuple[Array, Array]:
    """(h, q) of the kernel over rows x; q where n is a multiple of 32."""
    n, count = x.shape[1], len(x) if output_rows is None else len(output_rows)
    buffer = padded_rows(x)
    h = guarded((count, buffer.shape[1]), F32)
    q = guarded((count, quantized_bytes(n) + 12), np.uint8)
    to = (q, q[0].nbytes) if n % 32 == 0 else (0, 0)
    bits = int(np.array(eps, F32).view(np.uint32))
    gathered = output_rows is not None
    rows = np.array(output_rows or [0], np.int32)
    arguments = (buffer, buffer[0].nbytes, weight, n, bits, h, h[0].nbytes, *to)
    op = op_record("rms_norm", *arguments, per_row=1, outputs=gathered)
    run_op(op, batch_record(len(x), count, output_rows=rows), count)
    return h, q


@pytest.mark.parametrize("eps", [1e-5, 0.0, 0.5])
@pytest.mark.parametrize("n", [1, 15, 64, 172, 512])
def test_rms_norm(n: int, eps: float) -> None:
    rng = np.random.default_rng(n)
    x, weight = rng.standard_normal((3, n)).astype(F32), rng.standard_normal(n).astype(F32)
    h, q = rms_norm(x, weight, eps)
    wide = x.astype(np.float64)
    exact = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + np.array(eps, F32)) * weight
    # n / 16 fused steps and four sums, halved by the root; then a handful of single roundings.
    bound = ((n / 16 + 5) / 2 + 7) * EPSILON
    assert (np.abs(h[:, :n] - exact) <= bound * np.abs(exact)).all()
    assert same_bits(h[:, n:].copy(), np.zeros((3, -n % 16), F32)), "padding must be zero"
    if n % 32 == 0:
        assert_quantized(q, h)


def test_rms_norm_gathers_the_wanted_rows() -> None:
    x = np.random.default_rng(3).standard_normal((6, 64)).astype(F32)
    weight = np.ones(64, F32)
    all_rows, _ = rms_norm(x, weight, 1e-5)
    wanted, _ = rms_norm(x, weight, 1e-5, [4, 0])
    assert same_bits(wanted, all_rows[[4, 0]])


def swiglu(gate: Array, up: Array, n: int) -> Array:
    rows, pieces = len(gate), -(-n // PIECE)
    gate, up = padded_rows(gate), padded_rows(up)
    run_op(op_record("swiglu", gate, up, gate[0].nbytes, n, 0, 0), batch_record(rows), rows * pieces)
    return gate


def quantized_swiglu(gate: Array, up: Array, n: int) -> Array:
    q, pieces = guarded((len(gate), quantized_bytes(n) + 12), np.uint8), -(-n // PIECE)
    op = op_record("swiglu", gate, up, gate[0].nbytes, n, q, q[0].nbytes)
    run_op(op, batch_record(len(gate)), len(gate) * pieces, 4 * PIECE)
    return q


@pytest.mark.parametrize("n", [1, 172, 256, 1000, 1024])
def test_swiglu(n: int) -> None:
    rng = np.random.default_rng(n)
    gate, up = (rng.uniform(-80, 80, (3, n)).astype(F32) for _ in range(2))
    h = swiglu(gate, up, n)
    z = gate.astype(np.float64)
    exact = z / (1 + np.exp(-z)) * up
    assert (np.abs(h[:, :n] - exact) <= 6 * EPSILON * np.abs(exact)).all()
    assert same_bits(h[:, n:].copy(), np.zeros((3, -n % 16), F32)), "padding must be zero"
    if n % 32 == 0:
        assert_quantized(quantized_swiglu(gate, up, n), h)


def test_swiglu_at_the_edges() -> None:
    gate = np.array([[0.0, -0.0, 1e-40, 100.0, 3e38, np.inf, np.nan, -90.0, -1e30]], F32)
    h = swiglu(gate, np.ones_like(gate), 9)
    assert np.array_equal(h[0, :7], np.array([0, -0.0, 5e-41, 100, 3e38, np.inf, np.nan], F32), equal_nan=True)
    # exp stops at 1.6e38, so what should be 0 is only tiny.
    assert (np.abs(h[0, 7:9]) <= np.abs(gate[0, 7:9]) / 1.6e38).all()


@pytest.fixture(scope="module")
def exp() -> Any:
    """`kquants.functions.exp` as a kernel of its own, over float32 arrays of 16 n values."""
    from kquants import compile, jit
    from kquants.decorators import KERNELS, kernel
    from kquants.functions import exp as exp_of_lanes
    from kquants.simd import load_f32x16, store_f32x16

    @kernel("exp", arguments=3)
    def every_lane(x: int, n: int, y: int) -> None:
        for k in range(0, 4 * n, 64):
            store_f32x16(y + k, exp_of_lanes(load_f32x16(x + k)))

    address = jit._link(compile.object_code("exp"), "exp")
    del KERNELS["exp"]

    def call(x: Array) -> Array:
        y = np.empty_like(x)
        call_address(address, x.ctypes.data, len(x), y.ctypes.data)
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
    # Beside other values as alone: a lane does not know its neighbours.
    assert same_bits(y, np.concatenate([exp(np.full(16, value, F32))[:1] for value in x]))
