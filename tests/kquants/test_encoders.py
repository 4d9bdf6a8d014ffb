"""Encoders of floats and of blocks of 32 weights: their bytes and their errors; and arrays that `encode` refuses.

For what all encoders have in common see test_encoders_alike.
"""

from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from kquants.dequantize import dequantize
from kquants.encode import encode, encode_into
from support.encoder_oracle import llama_cpp_encode
from support.encoders import LARGEST, decoded, encoded, samples_for, squared_error
from support.kernels import KINDS, cache_folder, same_bits

Array = NDArray[Any]
BLOCKS = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL"]
SAMPLES = samples_for("Q8_0")


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
@pytest.mark.parametrize("value", [1.0, -0.3, 3e-3, -60000.0, 1e-5])
def test_a_constant_block_stays_constant(name: str, value: float) -> None:
    values = np.full((1, 32), value, np.float32)
    got = decoded(name, encoded(name, values).data)
    assert np.ptp(got) == 0
    tiny = 2.0**-25 * 127 if name in ("Q8_0", "IQ4_NL") else 2.0**-25  # half a step of a denormal scale, times q
    assert np.abs(got - value).max() <= max(abs(value) * 2.0**-11, tiny)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_largest_weights(name: str) -> None:
    largest = np.float32(LARGEST[name])
    values = np.random.default_rng(4).uniform(-1, 1, (4, 64)).astype(np.float32) * largest
    values[0, :2] = largest, -largest
    values[1, :32] = largest
    values[2, :32] = -largest
    got = decoded(name, encoded(name, values).data)
    step = {"Q8_0": 127, "Q5_0": 15, "Q5_1": 15.5}.get(name, 5.5)
    assert np.abs(got - values).max() <= largest / step


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
        encode(KINDS["Q4_0"], values, cache_folder(), weights)
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
