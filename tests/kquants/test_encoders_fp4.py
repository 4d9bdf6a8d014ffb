"""The encoders of weights in four-bit floats (MXFP4, NVFP4) against llama.cpp's, the gguf package and every scale."""

from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from kquants.dequantize import dequantize
from kquants.encode import Encoded, NotEncodableError, encode, encode_into
from support.encoder_oracle import llama_cpp_encode
from support.encoder_samples import importance, samples
from support.kernels import GUARD, KINDS, cache_folder, fenced, guarded, random_blocks
from support.trained_weights import trained

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

NAMES = ["MXFP4", "NVFP4"]
SPAN = {"MXFP4": 32, "NVFP4": 16}
"""Weights under a scale."""
LARGEST = {"MXFP4": 2.0**127, "NVFP4": 2688.0}
SCALES = {
    "MXFP4": 2.0 ** np.arange(-40, 41),
    "NVFP4": np.array([(8 + c % 8) * 2.0 ** (c // 8 - 10) if c > 7 else c * 2.0**-9 for c in range(1, 127)]),
}
"""Every scale: of MXFP4 those that samples may need, of NVFP4 UE4M3 without NaN."""
LEVELS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])

SAMPLES = {what: rows.clip(-2600, 2600) for what, rows in samples().items()}
IMPORTANCE = importance()


def encoded(name: str, rows: Floats, weights: Floats | None = None) -> Encoded:
    return encode(KINDS[name], rows, cache_folder(), weights)


def decoded(name: str, data: Bytes) -> NDArray[np.float64]:
    weights: Floats = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[name])
    return weights.astype(np.float64)


def errors(name: str, rows: Floats, data: Bytes, weights: Floats | None = None) -> NDArray[np.float64]:
    """The weighted squared error under each scale."""
    squares = (rows - decoded(name, data)) ** 2 * (1 if weights is None else weights)
    return squares.reshape(-1, SPAN[name]).sum(1)


def least_errors(name: str, rows: Floats, weights: Floats | None = None) -> NDArray[np.float64]:
    """The least weighted squared error that any scale gives."""
    x = np.abs(rows.astype(np.float64)).reshape(-1, SPAN[name])
    w = np.broadcast_to(np.float64(1) if weights is None else weights.astype(np.float64), rows.shape).reshape(x.shape)
    best = (w * x**2).sum(1)
    for d in SCALES[name]:
        level = LEVELS[np.searchsorted((LEVELS[1:] + LEVELS[:-1]) / 2, x / d)]
        best = np.minimum(best, (w * (x - d * level) ** 2).sum(1))
    return best


@pytest.mark.parametrize("what", SAMPLES)
@pytest.mark.parametrize("name", NAMES)
def test_no_scale_is_better(name: str, what: str) -> None:
    """But for some blocks of NVFP4 with a single weight, which a much higher scale may hold as a lower level."""
    rows = SAMPLES[what]
    found, least = errors(name, rows, encoded(name, rows).data), least_errors(name, rows)
    assert (found <= 1.0001 * least + 1e-30).mean() >= (0.995 if what == "sparse" else 1)
    assert found.sum() <= 1.0001 * least.sum()
    assert found.sum() <= errors(name, rows, llama_cpp_encode(name, rows)).sum()


@pytest.mark.parametrize("what", ["Gaussian", "heavy tails", "one side"])
@pytest.mark.parametrize("name", NAMES)
def test_hardly_a_scale_is_better_where_columns_have_an_importance(name: str, what: str) -> None:
    """Only if the largest weights hardly matter, lower scales may be better than those that are tried."""
    rows = SAMPLES[what]
    data = encoded(name, rows, IMPORTANCE).data
    found, least = errors(name, rows, data, IMPORTANCE).sum(), least_errors(name, rows, IMPORTANCE).sum()
    assert found <= 1.002 * least
    assert found <= errors(name, rows, llama_cpp_encode(name, rows, IMPORTANCE), IMPORTANCE).sum()
    assert found < errors(name, rows, encoded(name, rows).data, IMPORTANCE).sum()


@pytest.mark.parametrize("name", NAMES)
def test_the_error_of_a_trained_model_is_not_above_that_of_llama_cpp(name: str, shared: Path) -> None:
    matrices = trained(shared / "models/tale-13m/model.safetensors")
    assert len(matrices) > 20
    for tensor, weights in matrices:
        rows = weights[::8].copy()
        ours, theirs = (errors(name, rows, data) for data in (encoded(name, rows).data, llama_cpp_encode(name, rows)))
        assert ours.sum() < 0.98 * theirs.sum(), tensor


@pytest.mark.parametrize("name", NAMES)
def test_weights_that_the_format_can_hold_stay_as_they_are(name: str) -> None:
    """Also those that were encoded otherwise, by scales that are not the least."""
    data = random_blocks(np.random.default_rng(3), KINDS[name], 4096)
    if name == "MXFP4":
        data[:, 0] = 60 + data[:, 0] % 128
    else:
        data[:, :4] &= 0x7F
        data[:, :4][data[:, :4] == 0x7F] = 1
    weights = decoded(name, data).astype(np.float32)
    result = encoded(name, weights)
    assert np.array_equal(decoded(name, result.data), weights)
    assert result.error == 0


@pytest.mark.parametrize("name", NAMES)
def test_decoders_agree_and_the_sums_are_theirs(name: str) -> None:
    for rows in SAMPLES.values():
        for weights in (None, IMPORTANCE):
            result = encoded(name, rows, weights)
            theirs = decoded(name, result.data)
            assert np.array_equal(dequantize(KINDS[name], result.data.reshape(-1), cache_folder()), theirs.reshape(-1))
            assert result.error == pytest.approx(((rows - theirs) ** 2).sum(), rel=1e-5)
            assert result.squares == pytest.approx((rows.astype(np.float64) ** 2).sum(), rel=1e-12)


@pytest.mark.parametrize("weights", [None, IMPORTANCE])
@pytest.mark.parametrize("name", NAMES)
def test_a_block_does_not_depend_on_others(name: str, weights: Floats | None) -> None:
    rows, kind = np.concatenate([rows[:2] for rows in SAMPLES.values()]), KINDS[name]
    whole = encoded(name, rows, weights).data
    for first, n in ((0, 1), (5, 3), (3, 5), (15, 1)):  # in blocks of 64
        part = None if weights is None else weights[64 * first : 64 * (first + n)].copy()
        some = encoded(name, rows[:, 64 * first : 64 * (first + n)].copy(), part).data
        size = kind.row_bytes(64)
        assert np.array_equal(some, whole[:, size * first : size * (first + n)])
    assert np.array_equal(encoded(name, rows[3:4], weights).data, whole[3:4])


@pytest.mark.parametrize("name", NAMES)
def test_only_the_proportions_of_importance_matter(name: str) -> None:
    rows = SAMPLES["Gaussian"]
    ones, plain = np.ones(rows.shape[1], np.float32), encoded(name, rows).data
    for equal in (ones, ones * 0, ones * np.float32(3e38), ones * np.float32(1e-20)):
        assert np.array_equal(encoded(name, rows, equal).data, plain)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-38, 1e-30, 1e-12, 1e-3, 1.0])
def test_weights_of_any_size_are_no_worse_than_zeros(name: str, size: float) -> None:
    rows = (np.random.default_rng(3).uniform(-1, 1, (4, 192)) * size * LARGEST[name]).astype(np.float32)
    if size < 1:
        rows = (rows.astype(np.float64) / LARGEST[name]).astype(np.float32)
    result = encoded(name, rows)
    assert np.isfinite(decoded(name, result.data)).all()
    assert result.error <= result.squares
    assert size < 1 or result.error < 0.05 * result.squares


@pytest.mark.parametrize("name", NAMES)
def test_the_first_value_that_does_not_fit_is_found(name: str) -> None:
    above = np.nextafter(np.float32(LARGEST[name]), np.float32(np.inf))
    for bad in (np.nan, np.inf, -np.inf, above, -above):
        for index in (0, 63, 64, 320, 575):
            rows = np.full((9, 64), LARGEST[name], np.float32)
            rows.reshape(-1)[index] = bad
            rows.reshape(-1)[index + 1 :: 37] = np.nan
            with pytest.raises(NotEncodableError) as raised:
                encoded(name, rows)
            assert raised.value.index == index


@pytest.mark.parametrize("shape", [(1, 64), (3, 192), (0, 64), (2, 0)])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_touched_beside_the_rows(name: str, shape: tuple[int, int]) -> None:
    kind, ones = KINDS[name], np.ones(shape, np.float32)
    weights = fenced(np.ones(shape[1], np.float32)) if shape[1] else np.ones(0, np.float32)
    room = guarded((shape[0] * kind.row_bytes(shape[1]) + 128,), np.uint8)
    target = room[64:-64].reshape(shape[0], kind.row_bytes(shape[1]))
    encode_into(target, kind, fenced(ones) if ones.size else ones, cache_folder(), weights)
    assert (room[:64] == GUARD).all() and (room[-64:] == GUARD).all()
    assert np.array_equal(target, encoded(name, ones).data)
