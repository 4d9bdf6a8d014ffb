"""The families of shared/archs: llama.cpp's GGUF files give the logits and the text of `transformers`."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.arch import ARCHITECTURES
from support.archs import DECODERS, ArchFixture
from support.engine_bits import extend, fresh, neighbours, opened
from support.reference import divergence


@pytest.fixture(params=DECODERS)
def fixture(request: pytest.FixtureRequest, shared: Path, tmp_path: Path) -> ArchFixture:
    """Each fixture whose architecture edgellm runs."""
    architecture = DECODERS[request.param]
    if architecture not in ARCHITECTURES:
        pytest.skip(f"architecture {architecture} is not supported")
    return ArchFixture.of(shared, request.param).completed(tmp_path)


def test_logits_are_those_of_transformers(fixture: ArchFixture) -> None:
    with opened(fixture.gguf, kv_type="f32") as engine:
        logits = fresh(engine, fixture.ids).view(np.float32)
    assert divergence(fixture.logits, logits) <= 1e-5


def test_greedy_text_is_that_of_transformers(fixture: ArchFixture) -> None:
    with opened(fixture.gguf, kv_type="f32") as engine:
        sequence, got, new = engine.new_sequence(), list[int](), fixture.ids
        for _ in range(8):
            new = [int(extend(engine, sequence, new, 64)[-1].view(np.float32).argmax())]
            got += new
    assert got == fixture.greedy()


@pytest.mark.slow
def test_chunks_threads_and_neighbours_change_no_bit(fixture: ArchFixture) -> None:
    ids = fixture.ids
    with opened(fixture.gguf) as engine:
        whole = fresh(engine, ids)
        assert np.array_equal(neighbours(engine, ids, ids[::-1]), whole)
    for threads, chunk in ((1, 1), (1, 64), (2, 7), (3, 7), (3, 64)):
        with opened(fixture.gguf, threads) as engine:
            got = extend(engine, engine.new_sequence(), ids, chunk)
        assert np.array_equal(got, whole), f"{threads} threads, chunks of {chunk}"
