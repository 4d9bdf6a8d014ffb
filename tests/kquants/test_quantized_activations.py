"""Quantization of activations, by blocks and by super-blocks, as documented."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from kquants.layout import (
    LARGEST_SUM,
    SUPER_GROUP_BYTES,
    quantized_bytes,
)
from kquants.tuning import tuning
from support.quantized_rows import BlockRows, SuperRows
from support.quantized_targets import quantize

F32 = np.float32
Array = NDArray[Any]


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
