"""Tensor types, dequantization and embedding against the gguf package."""

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kquants import FORMATS
from kquants.dequantize import dequantize
from kquants.ggml import GGML_TYPES, NAMED_TYPES, REMOVED_TYPES
from support.kernels import KINDS, cache_folder, random_blocks, same_bits

Bytes = NDArray[np.uint8]
# Zeros, denormals, ones, the largest and the smallest normal of float16, both signs.
EDGE_SCALES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF]


def expected(name: str, data: Bytes) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        weights: NDArray[np.float32] = gguf.quants.dequantize(data.reshape(-1), Type[name])
    return weights


def assert_dequantizes(name: str, data: Bytes) -> None:
    weights = dequantize(KINDS[name], data.reshape(-1), cache_folder())
    assert same_bits(weights, expected(name, data))


def test_the_types_are_those_of_gguf() -> None:
    ours = {t.number: (t.name, t.block, t.nbytes) for t in GGML_TYPES.values()}
    theirs = {int(t): (t.name, *gguf.GGML_QUANT_SIZES[t]) for t in Type}
    # Each may know a newer type. gguf has Q8_1, which no file holds, as it was before ggml made its scales f16.
    both = ours.keys() & theirs.keys() - {Type.Q8_1}
    assert len(both) >= 30
    assert {n: ours[n] for n in both} == {n: theirs[n] for n in both}
    assert not ours.keys() & REMOVED_TYPES.keys()
    assert not theirs.keys() & REMOVED_TYPES.keys()


def test_the_scales_of_every_type_are_where_gguf_reads_them() -> None:
    # A NaN there makes weights NaN; nowhere else does it. gguf decodes two types not, that no models are made of.
    for kind in GGML_TYPES.values():
        if kind.scales and kind.name not in ("Q8_1", "Q1_0"):
            for at in range(0, kind.nbytes - 1, 2):
                block = np.zeros((1, kind.nbytes), np.uint8)
                block[0, at : at + 2] = 0xFF, 0x7F
                assert np.isnan(expected(kind.name, block)).any() == (at in kind.scales), f"{kind.name} byte {at}"


@pytest.mark.parametrize("name", FORMATS)
def test_random_bytes(name: str) -> None:
    rng = np.random.default_rng(7)
    assert_dequantizes(name, random_blocks(rng, KINDS[name], 1 << 17 >> (KINDS[name].block > 1) * 6))


@pytest.mark.parametrize("name", ["F16", "BF16"])
def test_every_value_of_two_bytes(name: str) -> None:
    assert_dequantizes(name, np.arange(1 << 16, dtype=np.uint16).view(np.uint8))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("byte", [0x00, 0x80, 0x7F, 0xFF])
def test_blocks_of_one_byte(name: str, byte: int) -> None:
    assert_dequantizes(name, np.full((3, KINDS[name].nbytes), byte, np.uint8))


@pytest.mark.parametrize("name", ["Q8_0", "Q4_K", "Q6_K"])
def test_scales_at_the_edges(name: str) -> None:
    kind = KINDS[name]
    pairs = [(a, b) for a in EDGE_SCALES for b in EDGE_SCALES]
    data = random_blocks(np.random.default_rng(8), kind, len(pairs))
    for block, pair in zip(data, pairs, strict=True):
        for at, scale in zip(kind.scales, pair, strict=False):
            block[at : at + 2] = scale & 0xFF, scale >> 8
    data[::3, 16 if name == "Q4_K" else 2 :][:, :64] = 0  # q = 0 under a negative scale is -0.0
    assert_dequantizes(name, data)


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(FORMATS), st.data())
def test_any_bytes(name: str, draw: st.DataObject) -> None:
    size = KINDS[name].nbytes
    data = draw.draw(st.integers(1, 5).flatmap(lambda n: st.binary(min_size=n * size, max_size=n * size)))
    assert_dequantizes(name, np.frombuffer(data, np.uint8))


def test_no_bytes_are_no_weights() -> None:
    assert dequantize(KINDS["Q4_K"], np.empty(0, np.uint8), cache_folder()).shape == (0,)


def test_an_array_that_runs_backwards() -> None:
    data = random_blocks(np.random.default_rng(9), KINDS["Q8_0"], 8)
    weights = dequantize(KINDS["Q8_0"], data.reshape(-1)[::-1], cache_folder())
    assert same_bits(weights, expected("Q8_0", data.reshape(-1)[::-1].copy()))


@pytest.mark.parametrize("name", ["Q8_K", "I8", "F64"])
def test_other_types_are_refused(name: str) -> None:
    kind = NAMED_TYPES[name]
    with pytest.raises(ValueError, match=rf"{name} cannot be dequantized; F32, F16, BF16"):
        dequantize(kind, np.zeros(kind.nbytes, np.uint8), cache_folder())


@pytest.mark.parametrize("data", [np.zeros(35, np.uint8), np.zeros((1, 34), np.uint8), np.zeros(34, np.int8)])
def test_bytes_that_are_no_blocks_are_refused(data: Bytes) -> None:
    with pytest.raises(ValueError, match="Q8_0 is dequantized from 1-D uint8 in blocks of 34"):
        dequantize(KINDS["Q8_0"], data, cache_folder())
