"""Encoders of floats and of blocks of 32 weights: their bytes, their errors, and values that they refuse."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from kquants.dequantize import dequantize
from kquants.encode import Encoded, NotEncodableError, encode, encode_into
from support.encoder_oracle import llama_cpp_encode
from support.encoder_samples import importance, samples
from support.kernels import GUARD, KINDS, cache_folder, fenced, guarded, same_bits
from support.trained_weights import trained

Array = NDArray[Any]
FLOATS = ["F32", "F16", "BF16"]
SEARCHED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL"]
BLOCKS = ["Q8_0", *SEARCHED]
# The largest weight that a block can hold: d is at most 65504, the outermost level may be on one side only.
LIMITS = {"Q8_0": 127, "Q4_0": 7, "Q5_0": 15, "IQ4_NL": 113, "Q4_1": 1, "Q5_1": 1}
SAMPLES = samples()
IMPORTANCE = importance()


def encoded(name: str, values: Array, weights: Array | None = None) -> Encoded:
    return encode(KINDS[name], values, cache_folder(), weights)


def decoded(name: str, data: Array) -> Array:
    values: Array = gguf.quants.dequantize(data, Type[name])
    return values.astype(np.float64)


def squared_error(name: str, values: Array, data: Array, weights: Array | None = None) -> float:
    errors = (values.astype(np.float64) - decoded(name, data)) ** 2
    return float((errors if weights is None else errors * weights).sum())


@pytest.mark.parametrize("columns", [1, 3, 16, 61])
def test_floats_are_rounded_to_nearest_even(columns: int) -> None:
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (halves[:-1] + halves[1:]) / 2
    near = [np.nextafter(ties, np.float32(side)) for side in (-1, 1e9)]
    bits = np.random.default_rng(1).integers(0, 2**32, 40000, dtype=np.uint64).astype(np.uint32)
    bits[::3] &= 0xFFFF8000  # ties of BF16
    wide = bits.view(np.float32)
    fit = {"F16": np.concatenate([halves, ties, *near, [65519.99]]), "BF16": wide[np.abs(wide) < 3.39e38]}
    fit["F32"] = fit["BF16"]
    for name, values in fit.items():
        values = np.concatenate([values, -values])
        rows = values[: len(values) // columns * columns].astype(np.float32).reshape(-1, columns)
        result = encoded(name, rows)
        assert np.array_equal(result.data, gguf.quants.quantize(rows, Type[name]).view(np.uint8))
        assert same_bits(dequantize(KINDS[name], result.data.reshape(-1), cache_folder()), back(name, result.data))


def back(name: str, data: Array) -> NDArray[np.float32]:
    if name == "BF16":
        return (data.reshape(-1).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return data.reshape(-1).view(np.float16 if name == "F16" else np.float32).astype(np.float32)


@pytest.mark.parametrize("what", SAMPLES)
def test_q8_0_has_the_bytes_of_llama_cpp(what: str) -> None:
    values = SAMPLES[what]
    ours = encoded("Q8_0", values).data
    assert np.array_equal(ours, llama_cpp_encode("Q8_0", values))
    assert np.array_equal(ours, gguf.quants.quantize(values, Type.Q8_0))


def test_q8_0_rounds_ties_away_from_zero() -> None:
    values = np.arange(-127, 128, dtype=np.float32)[:224].reshape(7, 32) + np.float32(0.5)
    values[:, 0] = 127  # d = 1
    values[0, 1] = np.nextafter(np.float32(0.5), np.float32(0))
    q = encoded("Q8_0", values).data[:, 2:].view(np.int8)
    assert np.array_equal(q, np.trunc(values.astype(np.float64) + np.copysign(0.5, values)))


@pytest.mark.parametrize("what", SAMPLES)
@pytest.mark.parametrize("name", BLOCKS)
def test_every_reader_sees_the_same_weights(name: str, what: str) -> None:
    values = SAMPLES[what]
    for weights in (None, IMPORTANCE):
        result = encoded(name, values, weights)
        theirs = decoded(name, result.data)
        assert same_bits(dequantize(KINDS[name], result.data.reshape(-1), cache_folder()), theirs.astype("f4").ravel())
        assert result.error == pytest.approx(((values - theirs) ** 2).sum(), rel=1e-5)
        assert result.squares == pytest.approx((values.astype(np.float64) ** 2).sum(), rel=1e-12)


@pytest.mark.parametrize("what", ["Gaussian", "heavy tails", "very heavy tails", "one side", "around 1", "sparse"])
@pytest.mark.parametrize("name", SEARCHED)
def test_the_error_is_below_that_of_llama_cpp(name: str, what: str) -> None:
    values = SAMPLES[what]
    ours, theirs = encoded(name, values).data, llama_cpp_encode(name, values)
    assert squared_error(name, values, ours) < squared_error(name, values, theirs)
    errors = [((values - decoded(name, data)) ** 2).reshape(-1, 32).sum(1) for data in (ours, theirs)]
    squares = (values.astype(np.float64) ** 2).reshape(-1, 32).sum(1)
    assert (errors[0] > 1.1 * errors[1] + 1e-6 * squares).mean() < 0.03


@pytest.mark.parametrize("what", ["Gaussian", "heavy tails", "one side"])
@pytest.mark.parametrize("name", SEARCHED)
def test_the_weighted_error_is_below_that_of_llama_cpp(name: str, what: str) -> None:
    values = SAMPLES[what]
    ours, theirs = encoded(name, values, IMPORTANCE).data, llama_cpp_encode(name, values, IMPORTANCE)
    error = squared_error(name, values, ours, IMPORTANCE)
    assert error <= squared_error(name, values, theirs, IMPORTANCE)
    assert error < 0.95 * squared_error(name, values, encoded(name, values).data, IMPORTANCE)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_error_of_a_trained_model_is_not_above_that_of_llama_cpp(name: str, shared: Path) -> None:
    matrices = trained(shared / "models/tale-13m/model.safetensors")
    assert len(matrices) > 20
    for tensor, weights in matrices:
        rows = weights[::8].copy()
        theirs = squared_error(name, rows, llama_cpp_encode(name, rows))
        assert squared_error(name, rows, encoded(name, rows).data) <= theirs, tensor


@pytest.mark.parametrize(("name", "levels"), [("Q4_0", range(-8, 8)), ("IQ4_NL", gguf.quants.IQ4_NL.kvalues)])
def test_no_scale_is_much_better(name: str, levels: Any) -> None:
    """Against every float16 of either sign that is near enough to matter."""
    blocks = SAMPLES["Gaussian"].reshape(-1, 32)[:48].astype(np.float64)
    v = np.array(levels, np.float64)
    middles = (v[1:] + v[:-1]) / 2
    best = np.full(len(blocks), np.inf)
    for part in np.linspace(0.7, 1.3, 800):
        for outermost in (v[0], v[-1]):
            d = (np.abs(blocks).max(1, keepdims=True) / outermost * part).astype(np.float16).astype(np.float64)
            for sign in (1, -1):
                near = v[np.searchsorted(middles, blocks / d * sign)] * d * sign
                best = np.minimum(best, ((blocks - near) ** 2).sum(1))
    rows = blocks.astype(np.float32)
    assert squared_error(name, rows, encoded(name, rows).data) < 1.005 * best.sum()


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_does_not_depend_on_others(name: str) -> None:
    """Whatever their number, their place and the calling thread."""
    values = np.concatenate([v[:2, :992] for v in SAMPLES.values()])
    for weights in (None, IMPORTANCE[:992]):
        whole = encoded(name, values, weights).data
        with ThreadPoolExecutor(4) as pool:
            rows = [values[i : i + 1].copy() for i in range(len(values))]
            apart = pool.map(encoded, [name] * len(rows), rows, [weights] * len(rows))
            assert np.array_equal(np.concatenate([part.data for part in apart]), whole)
        for i, n in ((0, 1), (5, 3), (12, 17), (30, 1)):
            part = None if weights is None else weights[32 * i : 32 * (i + n)].copy()
            some = encoded(name, values[:, 32 * i : 32 * (i + n)].copy(), part).data
            size = KINDS[name].nbytes
            assert np.array_equal(some, whole[:, size * i : size * (i + n)])


@pytest.mark.parametrize("name", BLOCKS)
def test_zeros_stay_zeros(name: str) -> None:
    values = np.zeros((2, 64), np.float32)
    values[1, ::2] = -0.0
    result = encoded(name, values)
    assert (decoded(name, result.data) == 0).all()
    assert (result.error, result.squares) == (0, 0)
    assert np.array_equal(result.data[0], result.data[1])  # the sign of a zero tells nothing


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("value", [1.0, -0.3, 3e-3, -60000.0, 1e-5])
def test_a_constant_block_stays_constant(name: str, value: float) -> None:
    values = np.full((1, 32), value, np.float32)
    got = decoded(name, encoded(name, values).data)
    assert np.ptp(got) == 0
    tiny = 2.0**-25 * 127 if name in ("Q8_0", "IQ4_NL") else 2.0**-25  # half a step of a denormal scale, times q
    assert np.abs(got - value).max() <= max(abs(value) * 2.0**-11, tiny)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("size", [1e-45, 1e-38, 1e-30, 1e-12, 1e-8, 1e-7, 3e-7, 1e-6])
def test_tiny_weights_do_no_harm(name: str, size: float) -> None:
    values = (np.random.default_rng(3).uniform(-1, 1, (4, 96)) * size).astype(np.float32)
    for weights in (None, importance(96)):
        result = encoded(name, values, weights)
        assert np.isfinite(decoded(name, result.data)).all()
        if weights is None:
            assert result.error <= 1.0001 * result.squares  # no worse than zeros


@pytest.mark.parametrize("name", BLOCKS)
def test_the_largest_weights(name: str) -> None:
    largest = np.float32(65504 * LIMITS[name])
    values = np.random.default_rng(4).uniform(-1, 1, (4, 64)).astype(np.float32) * largest
    values[0, :2] = largest, -largest
    values[1, :32] = largest
    values[2, :32] = -largest
    got = decoded(name, encoded(name, values).data)
    step = {"Q8_0": 127, "Q5_0": 15, "Q5_1": 15.5}.get(name, 5.5)
    assert np.abs(got - values).max() <= largest / step


@pytest.mark.parametrize("weights", [None, IMPORTANCE[:64]])
@pytest.mark.parametrize("name", FLOATS + BLOCKS)
def test_the_first_bad_weight_is_named(name: str, weights: Array | None) -> None:
    limit = {"F32": np.inf, "F16": 65520, "BF16": 3.39618e38}.get(name, 65504 * 1.15 * LIMITS.get(name, 1))
    for at in (0, 31, 64 * 8 - 1, 64 * 8, 64 * 9 - 1):
        for bad in (np.nan, np.inf, -np.inf, np.float32(limit), -np.float32(limit)):
            values = np.ones((9, 64), np.float32)
            values.reshape(-1)[at] = bad
            values.reshape(-1)[at + 1 :: 37] = np.nan
            with pytest.raises(NotEncodableError) as caught:
                encoded(name, values, weights)
            assert caught.value.index == at
            assert np.array_equal(caught.value.value, bad, equal_nan=True)
            assert str(caught.value) == f"weight {at} is {bad:g}, which {name} cannot hold"


@pytest.mark.parametrize("name", FLOATS + BLOCKS)
@pytest.mark.parametrize("shape", [(1, 32), (3, 160), (1, 1056), (0, 32), (2, 0)])
def test_nothing_is_touched_beside_the_rows(name: str, shape: tuple[int, int]) -> None:
    kind = KINDS[name]
    values = fenced(np.ones(shape, np.float32)) if np.prod(shape) else np.ones(shape, np.float32)
    weights = fenced(np.ones(shape[1], np.float32)) if shape[1] else np.ones(0, np.float32)
    room = guarded((shape[0] * kind.row_bytes(shape[1]) + 128,), np.uint8)
    target = room[64:-64].reshape(shape[0], kind.row_bytes(shape[1]))
    encode_into(target, kind, values, cache_folder(), weights)
    assert (room[:64] == GUARD).all() and (room[-64:] == GUARD).all()
    assert np.array_equal(target, encoded(name, np.ones(shape, np.float32)).data)


ROWS = np.ones((2, 64), np.float32)


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        (ROWS.astype(np.float64), None, "values must be contiguous float32 (2, 64), not float64 (2, 64)"),
        (ROWS[:, ::2], None, "values must be contiguous float32 (2, 32), not float32 (2, 32), not contiguous"),
        (ROWS[:, :48].copy(), None, "Q4_0 takes 2-D values in rows of blocks of 32, not (2, 48)"),
        (ROWS[0], None, "Q4_0 takes 2-D values in rows of blocks of 32, not (64,)"),
        (ROWS, ROWS, "importance must be contiguous float32 (64,), not float32 (2, 64)"),
        (ROWS, ROWS[0, :32], "importance must be contiguous float32 (64,), not float32 (32,)"),
        (ROWS, -ROWS[0], "importance must be finite and not negative"),
        (ROWS, ROWS[0] * np.nan, "importance must be finite and not negative"),
    ],
)
def test_other_arrays_are_refused(values: Array, weights: Array | None, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        encoded("Q4_0", values, weights)
    assert str(caught.value) == message


def test_other_targets_are_refused() -> None:
    kind, target = KINDS["Q4_0"], np.zeros((2, 36), np.uint8)
    fixed = target.copy()
    fixed.flags.writeable = False
    for wrong in (target[:1], target.view(np.int8), target.reshape(4, 18), np.zeros((2, 72), np.uint8)[:, ::2], fixed):
        with pytest.raises(ValueError, match="target"):
            encode_into(wrong, kind, ROWS, cache_folder())


def test_types_without_an_encoder_are_refused() -> None:
    with pytest.raises(ValueError, match="IQ2_S cannot be encoded; F32, F16"):
        encoded("IQ2_S", ROWS)
