"""Llama 4 in prompts of several chunks: logits of `transformers`, and the same bits however they are computed."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.arch.architectures import llama4
from support.engine_bits import extend, forked, neighbours, opened, trimmed
from support.families.files import write_family_file
from support.families.llama4 import CHUNK
from support.families.references import IDS, POSITIONS, load_reference
from support.reference import divergence

OTHERS: list[int] = IDS[::-1]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the case, with chunks of 64 tokens in place of 8192."""
    monkeypatch.setattr(llama4, "CHUNK", CHUNK)
    return write_family_file(tmp_path, "llama4_chunks")


def test_logits_and_greedy_text_are_those_of_transformers(path: Path) -> None:
    reference = load_reference("llama4_chunks")
    with opened(path, kv_type="f32", ctx=1024) as engine:
        sequence = engine.new_sequence()
        logits = extend(engine, sequence, IDS, 150).view(np.float32)
        assert divergence(reference.logits, logits[POSITIONS]) <= 1e-5
        new, got = int(logits[-1].argmax()), list[int]()
        for _ in range(8):
            got.append(new)
            new = int(extend(engine, sequence, [new], 1).view(np.float32).argmax())
    assert got == reference.greedy


@pytest.mark.slow
def test_chunks_threads_neighbours_forks_and_trims_change_no_bit(path: Path) -> None:
    with opened(path, ctx=1024) as engine:
        whole = extend(engine, engine.new_sequence(), IDS, 150)
        assert np.array_equal(extend(engine, engine.new_sequence(), IDS, 7), whole)
        assert np.array_equal(neighbours(engine, IDS[:200], OTHERS), whole[:200])
        for at in (63, 64, 130):
            assert np.array_equal(forked(engine, IDS[:200], OTHERS, at), whole[at:200]), f"forked at {at}"
        for to in (len(IDS) - 1, 520, 64):
            reached, rest = trimmed(engine, IDS, 100, to)
            assert np.array_equal(rest, whole[reached:]), f"trimmed to {to}"
    with opened(path, 1, ctx=1024) as engine:
        assert np.array_equal(extend(engine, engine.new_sequence(), IDS, 64), whole), "one thread"
