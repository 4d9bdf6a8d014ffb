"""Quantized formats: exact values, and the same logits in every batch."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from edgellm.errors import UnsupportedModelError
from kquants import FORMATS, QUANTIZED_FORMATS
from kquants.dequantize import dequantize
from support.cpus import USUAL
from support.kernels import KINDS, cache_folder, put_scales, random_blocks, same_bits
from support.make_gguf import write_model
from support.model_file import ModelFile

Array = NDArray[Any]
# Zeros, denormals, ones, the largest and the smallest normal of float16, both signs.
EDGES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF]
IDS = [1, *map(int, np.random.default_rng(3).integers(3, 320, 99))]


def gguf_values(name: str, data: Array) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        values: NDArray[np.float32] = gguf.quants.dequantize(data, Type[name])
    return values


def assert_equals_gguf(name: str, blocks: Array) -> None:
    values = dequantize(KINDS[name], blocks.reshape(-1), cache_folder())
    assert same_bits(values, gguf_values(name, blocks.reshape(-1)))


@pytest.mark.parametrize("name", [name for name in QUANTIZED_FORMATS if KINDS[name].scales or name == "IQ1_M"])
def test_scales_at_the_edges(name: str) -> None:
    kind = KINDS[name]
    pairs = [(a, b) for a in EDGES for b in EDGES]
    blocks = random_blocks(np.random.default_rng(1), kind, len(pairs))
    put_scales(kind, blocks, *np.array(pairs, "<u2").T)
    assert_equals_gguf(name, blocks)
    for byte in (0x00, 0xFF):  # the smallest and the largest integers under every scale
        blocks[:] = byte
        put_scales(kind, blocks, *np.array(pairs, "<u2").T)
        assert_equals_gguf(name, blocks)


def test_every_exponent_and_every_value_of_mxfp4() -> None:
    blocks = random_blocks(np.random.default_rng(2), KINDS["MXFP4"], 256)
    blocks[:, 0] = np.arange(256)
    blocks[:, 1:] = np.arange(16) * 17
    assert_equals_gguf("MXFP4", blocks)


def test_every_scale_and_every_value_of_nvfp4() -> None:
    blocks = random_blocks(np.random.default_rng(2), KINDS["NVFP4"], 256)
    blocks[:, :4] = np.arange(256)[:, None] + np.arange(0, 256, 64)
    blocks[:, 4:] = np.tile(np.arange(16) * 17, 2)
    assert_equals_gguf("NVFP4", blocks)


UNREAD = {"NVFP4": [7, 15, 23, 31], "TQ1_0": [384, 392, 400, 408]}
"""Bits of a block that say nothing: the signs of scales; here the lowest of bytes with four trits in place of five."""


@pytest.mark.parametrize("name", QUANTIZED_FORMATS)
def test_every_bit_is_read(name: str) -> None:
    kind = KINDS[name]
    block = np.full((1, kind.nbytes), 0x5D, np.uint8)  # no scale and no weight is zero
    blocks = np.repeat(block, 8 * kind.nbytes, axis=0)
    for bit in range(len(blocks)):
        blocks[bit, bit // 8] ^= 1 << bit % 8
    assert_equals_gguf(name, blocks)
    is_read = (gguf_values(name, blocks) != gguf_values(name, block)).any(axis=1)
    assert np.flatnonzero(~is_read).tolist() == UNREAD.get(name, [])


def logits_bits(path: Path, threads: int, chunk: int | None) -> NDArray[np.uint32]:
    from edgellm import Model

    with Model.open(path, threads=threads, ctx=256) as model:
        logits: NDArray[np.float32] = model.logits(IDS, chunk=chunk)
    assert np.isfinite(logits).all()
    assert len(np.unique(logits, axis=0)) == len(logits)
    return logits.view(np.uint32)


@pytest.mark.parametrize("name", QUANTIZED_FORMATS)
def test_chunks_and_threads_change_no_bit(model_file: ModelFile, name: str) -> None:
    path = model_file(types=name)
    whole = logits_bits(path, 2, None)
    # Of a format are its products with one row, with few and with many; the others show what all share.
    others = ((1, 1), (3, 64), (1, None)) if name in USUAL else ()
    for threads, chunk in ((3, 1), (2, 7), *others):
        assert np.array_equal(logits_bits(path, threads, chunk), whole), f"{threads} threads, chunks of {chunk}"


REFUSED = ["Q8_K", "I32"]


@pytest.mark.parametrize("name", REFUSED)
def test_types_without_kernels_are_refused_by_name_and_tensor(tmp_path: Path, name: str) -> None:
    from edgellm import Model

    assert name not in FORMATS
    path = write_model(tmp_path / "model.gguf", types={"": "F16", "ffn_up": name}, layers=1)
    with pytest.raises(UnsupportedModelError) as caught:
        Model.open(path)
    wanted = f"model.gguf: tensor blk.0.ffn_up.weight has type {name}; `edgellm quantize` writes a file of types"
    assert wanted in str(caught.value)
    assert "\n" not in str(caught.value)
