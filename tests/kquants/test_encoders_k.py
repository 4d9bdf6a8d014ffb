"""The encoders of super-blocks against llama.cpp's own and the gguf package's decoders."""

from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kquants.dequantize import dequantize
from kquants.encode import NotEncodableError
from support.cpus import python, skip_without
from support.encoder_oracle import llama_cpp_encode
from support.k_samples import NAMES, SAMPLES, Floats, digests, encoded
from support.kernels import KINDS, cache_folder
from support.trained_weights import trained

LARGEST = {
    "Q2_K": 5e5,
    "Q3_K": 4e6,
    "Q4_K": 1e6,
    "Q5_K": 1e6,
    "Q6_K": 1e8,
    "IQ4_XS": 1e8,
    "TQ2_0": 65504,
    "TQ1_0": 65504,
}
TERNARY = ("TQ2_0", "TQ1_0")
LEVELS = {"Q2_K": 4, "Q3_K": 8, "Q4_K": 16, "Q5_K": 32, "Q6_K": 64, "IQ4_XS": 11, "TQ2_0": 3, "TQ1_0": 3}


def decoded(name: str, data: NDArray[np.uint8]) -> Floats:
    weights: Floats = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[name])
    return weights


def rms(name: str, rows: Floats, data: NDArray[np.uint8], importance: Floats | None = None) -> float:
    squares = (rows.astype(np.float64) - decoded(name, data)) ** 2
    return float(np.sqrt((squares * (1 if importance is None else importance)).mean()))


X = SAMPLES["normal"]


@pytest.mark.parametrize("what", SAMPLES)
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_smaller_than_those_of_llama_cpp(name: str, what: str) -> None:
    rows = SAMPLES[what]
    assert rms(name, rows, encoded(name, rows).data) <= rms(name, rows, llama_cpp_encode(name, rows))


@pytest.mark.parametrize("name", NAMES)
def test_errors_of_a_trained_model_are_smaller_than_those_of_llama_cpp(name: str, shared: Path) -> None:
    checked = 0
    for tensor, weights in trained(shared / "models/tale-13m/model.safetensors"):
        rows = weights[:: max(1, len(weights) // 64)].copy()
        assert rms(name, rows, encoded(name, rows).data) <= rms(name, rows, llama_cpp_encode(name, rows)), tensor
        checked += 1
    assert checked > 20


@pytest.mark.parametrize("what", ["normal", "Student, 3 degrees"])
@pytest.mark.parametrize("name", NAMES)
def test_weighted_errors_are_smaller_than_those_of_llama_cpp(name: str, what: str) -> None:
    rows = SAMPLES[what]
    importance = np.random.default_rng(6).lognormal(0, 1.5, rows.shape[1:]).astype(np.float32)
    ours, theirs = encoded(name, rows, importance).data, llama_cpp_encode(name, rows, importance)
    assert rms(name, rows, ours, importance) <= rms(name, rows, theirs, importance)
    assert rms(name, rows, ours, importance) < rms(name, rows, encoded(name, rows).data, importance)


@pytest.mark.parametrize("name", NAMES)
def test_only_the_proportions_of_importance_matter(name: str) -> None:
    ones = np.ones(X.shape[1], np.float32)
    plain = encoded(name, X).data
    for equal in (ones, ones * 0, ones * np.float32(3e38), ones * np.float32(1e-20)):
        assert np.array_equal(encoded(name, X, equal).data, plain)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TERNARY])  # whose weights all have one scale
def test_columns_of_no_importance_are_not_far_from_what_they_were(name: str) -> None:
    half = (np.arange(X.shape[1]) % 2).astype(np.float32)
    away = decoded(name, encoded(name, X, half).data) - X
    assert np.abs(away[:, 1::2]).mean() < 0.8 * np.abs(away[:, ::2]).mean()
    assert np.abs(away).max() < 20 * np.abs(X).max()


@pytest.mark.parametrize("name", NAMES)
def test_decoders_agree_and_the_sums_are_theirs(name: str) -> None:
    for rows in SAMPLES.values():
        result = encoded(name, rows)
        weights = decoded(name, result.data)
        assert np.array_equal(dequantize(KINDS[name], result.data.reshape(-1), cache_folder()), weights.reshape(-1))
        assert result.error == pytest.approx(((rows.astype(np.float64) - weights) ** 2).sum(), rel=1e-5)
        assert result.squares == pytest.approx((rows.astype(np.float64) ** 2).sum(), rel=1e-12)


@pytest.mark.parametrize("importance", [None, np.random.default_rng(8).random(768, np.float32)])
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_encoded_the_same_alone_and_together(name: str, importance: Floats | None) -> None:
    rows = np.random.default_rng(7).standard_t(3, (5, 768)).astype(np.float32)
    together = encoded(name, rows, importance).data
    for first, last in ((0, 1), (1, 2), (1, 4), (4, 5)):
        assert np.array_equal(encoded(name, rows[first:last], importance).data, together[first:last])
    alone = [
        encoded(name, part, None if importance is None else importance[:256]).data
        for part in rows[:, :256].copy().reshape(5, 1, 256)
    ]
    assert np.array_equal(np.concatenate(alone), together[:, : KINDS[name].nbytes])


@pytest.mark.parametrize("name", NAMES)
def test_values_that_are_all_the_same(name: str) -> None:
    for value in (0.0, -0.0, 1.0, -1.0, 0.02, -3e-3, LARGEST[name], -LARGEST[name], 1e-5, -1e-12, 1e-40):
        rows = np.full((3, 256), value, np.float32)
        for importance in (None, np.random.default_rng(9).random(256, np.float32)):
            weights = decoded(name, encoded(name, rows, importance).data)
            # Half a step of the coarsest scale; of the tiny ones, a float16 may hold nothing better than 0.
            allowed = 0.04 if abs(value) > 1e-3 else 1.0
            assert np.abs(weights - rows).max() <= allowed * abs(np.float32(value))


@pytest.mark.parametrize("name", TERNARY)
def test_ternary_weights_stay_as_they_are(name: str) -> None:
    rng = np.random.default_rng(10)
    scales = rng.lognormal(-4, 2, (64, 1, 1)).astype(np.float16).astype(np.float32)
    rows = (rng.choice([-1, 0, 1], (64, 3, 256), p=[0.1, 0.8, 0.1]) * scales).astype(np.float32).reshape(64, 768)
    rows[0] = 0
    rows[1, :-1] = 0
    for importance in (None, rng.lognormal(0, 2, 768).astype(np.float32)):
        assert np.array_equal(decoded(name, encoded(name, rows, importance).data), rows)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(NAMES), st.integers(0, 2**32), st.floats(-11, 0), st.integers(1, 256))
def test_no_value_is_far_from_what_it_was(name: str, seed: int, power: float, nonzero: int) -> None:
    rng = np.random.default_rng(seed)
    rows = (rng.uniform(-1, 1, (3, 256)) * LARGEST[name] * 10**power).astype(np.float32)
    rows[:, nonzero:] = 0
    weights = decoded(name, encoded(name, rows).data)
    assert np.abs(weights - rows).max() <= 1.01 * np.ptp(rows) / (LEVELS[name] - 1) + 2.0**-23


@pytest.mark.parametrize("name", NAMES)
def test_the_first_value_that_does_not_fit_is_found(name: str) -> None:
    for bad in (np.nan, np.inf, -np.inf, 1.01 * LARGEST[name], -1.01 * LARGEST[name]):
        for index in (0, 255, 700, 1279):
            rows = np.ones((5, 256), np.float32)
            rows.reshape(-1)[index] = bad
            rows.reshape(-1)[index + 1 :: 7] = np.nan
            with pytest.raises(NotEncodableError) as raised:
                encoded(name, rows)
            assert raised.value.index == index


@pytest.mark.cpus
@pytest.mark.timeout(1800)  # each process compiles for a CPU of its own
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
def test_lesser_cpus_give_the_same_bytes(cpu: str) -> None:
    skip_without("sse4.2", *(["avx2", "fma", "f16c"] if cpu == "x86-64-v3" else []))
    assert (
        python("-c", "from support.k_samples import digests; print(digests())", NUMBA_CPU_NAME=cpu).strip() == digests()
    )
