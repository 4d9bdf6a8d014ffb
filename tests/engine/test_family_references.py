"""The checkpoints of `support.families`, converted: logits and text are those of `transformers` in float64."""

import numpy as np
import pytest

from edgellm.arch import ARCHITECTURES
from support.engine_bits import extend, forked, neighbours, opened, trimmed
from support.families import CASES
from support.families.references import IDS, POSITIONS, load_reference
from support.model_file import FamilyFile
from support.reference import divergence

OTHERS: list[int] = IDS[::-1]
# Of all cases the one of each kind of layers; the others differ in sizes and settings.
KINDS = [
    *("llama3", "mistral_window", "qwen3_window", "ministral3", "smollm3", "gemma2", "gemma3_1b", "gemma3n"),
    *("gemma4_e2b", "gemma4_31b", "phi3_medium", "phi4_mini", "granite", "olmo3", "cohere2", "glm4_biases"),
    *("hunyuan", "starcoder2", "stablelm_12b", "apertus", "muse_glimmer"),
]


def needs(name: str) -> None:
    """Skip unless edgellm runs the architecture of the case `name`."""
    architecture = CASES[name].architecture
    if architecture not in ARCHITECTURES:
        pytest.skip(f"architecture {architecture} is not supported")


@pytest.mark.parametrize("name", CASES)
def test_logits_and_greedy_text_are_those_of_transformers(family_file: FamilyFile, name: str) -> None:
    needs(name)
    reference = load_reference(name)
    with opened(family_file(name), kv_type="f32", ctx=CASES[name].context) as engine:
        sequence = engine.new_sequence()
        logits = extend(engine, sequence, IDS, 150).view(np.float32)
        assert divergence(reference.logits, logits[POSITIONS]) <= 1e-5
        new, got = int(logits[-1].argmax()), list[int]()
        for _ in range(8):
            got.append(new)
            new = int(extend(engine, sequence, [new], 1).view(np.float32).argmax())
    assert got == reference.greedy


@pytest.mark.parametrize("name", KINDS)
def test_chunks_threads_neighbours_forks_and_trims_change_no_bit(family_file: FamilyFile, name: str) -> None:
    needs(name)
    path, ctx = family_file(name), CASES[name].context
    with opened(path, ctx=ctx) as engine:
        whole = extend(engine, engine.new_sequence(), IDS, 150)
        assert np.array_equal(extend(engine, engine.new_sequence(), IDS, 7), whole), "chunks of 7"
        assert np.array_equal(neighbours(engine, IDS, OTHERS), whole), "neighbours"
        for at in (64, 130):
            assert np.array_equal(forked(engine, IDS, OTHERS, at), whole[at:]), f"forked at {at}"
        for to in (299, 250, 64, 5):
            reached, rest = trimmed(engine, IDS, to)
            assert reached <= to
            assert np.array_equal(rest, whole[reached:]), f"trimmed to {to}"
    for threads, chunk in ((1, 1), (1, 64), (3, 64)):
        with opened(path, threads, ctx=ctx) as engine:
            got = extend(engine, engine.new_sequence(), IDS, chunk)
        assert np.array_equal(got, whole), f"{threads} threads, chunks of {chunk}"


@pytest.mark.parametrize("name", ["gemma3_1b", "phi3_medium"])
@pytest.mark.parametrize("kv_type", ["f32", "q8_0"])
def test_windows_change_no_bit_with_other_pages(family_file: FamilyFile, name: str, kv_type: str) -> None:
    needs(name)
    with opened(family_file(name), 1, kv_type, CASES[name].context) as engine:
        whole = extend(engine, engine.new_sequence(), IDS, 150)
        for chunk in (1, 7, 64):
            assert np.array_equal(extend(engine, engine.new_sequence(), IDS, chunk), whole), f"chunks of {chunk}"
