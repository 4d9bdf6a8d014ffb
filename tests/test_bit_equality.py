"""A token's logits are the same bits whatever the chunks it is computed in and the number of threads."""

from pathlib import Path

import numpy as np
import pytest
from conftest import ModelFile
from make_gguf import RECIPES
from numpy.typing import NDArray

IDS = [1, *map(int, np.random.default_rng(2).integers(3, 320, 149))]


def logits_bits(path: Path, threads: int, chunk: int | None, kv_type: str = "f16") -> NDArray[np.uint32]:
    """The logits of IDS as bit patterns, (n, vocab) uint32."""
    from edgellm import Model

    with Model.open(path, threads=threads, ctx=256, kv_type=kv_type) as model:
        logits: NDArray[np.float32] = model.logits(IDS, chunk=chunk)
    assert logits.dtype == np.float32
    return logits.view(np.uint32)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("recipe", RECIPES)
def test_chunks_and_threads_change_no_bit(model_file: ModelFile, recipe: str, threads: int) -> None:
    path = model_file(types=recipe)
    whole = logits_bits(path, 2, None)
    for chunk in (1, 7, 64, None):
        assert np.array_equal(logits_bits(path, threads, chunk), whole), f"chunks of {chunk}"


def test_chunks_change_no_bit_with_f32_pages(model_file: ModelFile) -> None:
    path = model_file(types="Q4_K", heads=4, kv_heads=1, head_dim=128)
    whole = logits_bits(path, 1, None, "f32")
    assert np.array_equal(logits_bits(path, 2, 7, "f32"), whole)


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_bits_are_those_of_real_logits(model_file: ModelFile, recipe: str) -> None:
    logits = logits_bits(model_file(types=recipe), 2, None).view(np.float32)
    assert np.isfinite(logits).all()
    assert len(np.unique(logits, axis=0)) == len(logits)
    assert np.ptp(logits, axis=1).min() > 2
