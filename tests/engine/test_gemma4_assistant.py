"""Assistants of Gemma 4 over the target's keys and values: what `transformers` computes, and files that do not fit."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.arch import describe
from edgellm.arch.gemma4_assistant import read_assistant_head
from edgellm.engine.head_engine import HeadEngine
from edgellm.engine.last_states import ReadingState
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment
from edgellm.errors import EdgeLLMError
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from support.archs import ArchFixture
from support.gemma_assistants import DRAFTS, IDS, LENGTHS, TARGETS, AssistantReference, reference, write_assistant
from support.heads import needed


@pytest.fixture
def target(shared: Path) -> Path:
    return ArchFixture.of(shared, "gemma4_e2b").gguf


@contextmanager
def opened(target: Path, assistant: Path, threads: int = 2) -> Iterator[NativeEngine]:
    """The engine of a target, with that of its assistant; keys and values are float32."""
    with GGUFFile.open(target) as file, GGUFFile.open(assistant) as head_file:
        head = read_assistant_head(head_file, describe(file))
        engine = NativeEngine(
            file, threads=threads, ctx=128, kv_type="f32", cache=cache_folder(), draft_head=needed(head)
        )
        yield engine
        engine.close()


def head_of(engine: NativeEngine) -> HeadEngine:
    assert engine.draft_head
    return engine.draft_head


def compute(engine: NativeEngine, sequence: PagedSequence, ids: list[int], chunk: int = 100) -> None:
    for i in range(0, len(ids), chunk):
        engine.compute([Segment(sequence, ids[i : i + chunk])])


def drafts(engine: NativeEngine, sequence: PagedSequence, text: list[int]) -> AssistantReference:
    """The outputs of the rows of a round, each of the most likely token of the row before."""
    head, logits, states = head_of(engine), [], []
    state = head.state_of(sequence)
    assert isinstance(state, ReadingState)
    segment = state.segment(text, head.max_rows)
    assert segment
    for _ in range(DRAFTS):
        outputs = head.compute([segment])
        assert outputs.logits is not None
        features = head.next_features(outputs)
        logits.append(outputs.logits[0])
        states.append(features[0])
        segment = state.next_segment(int(logits[-1].argmax()), features)
    return AssistantReference(np.array(logits), np.array(states))


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("length", LENGTHS)
def test_drafts_are_those_of_transformers(name: str, length: int, shared: Path, tmp_path: Path) -> None:
    """Also where the text is longer than the window. The bits are the same in any chunks, with any threads."""
    expected, found = reference(name, length), set[bytes]()
    target, assistant = ArchFixture.of(shared, name).gguf, write_assistant(tmp_path / "a.gguf", TARGETS[name])
    for threads in (1, 3):
        with opened(target, assistant, threads) as engine:
            for chunk in (100, 1, 7):
                sequence = engine.new_sequence()
                compute(engine, sequence, IDS[:length], chunk)
                given = drafts(engine, sequence, IDS[: length + 1])
                found.add(given.logits.tobytes() + given.states.tobytes())
    np.testing.assert_allclose(given.logits, expected.logits, atol=1e-4)
    np.testing.assert_allclose(given.states, expected.states, atol=1e-4)
    assert len(found) == 1


def test_the_state_follows_rejected_drafts_trims_and_forks(target: Path, tmp_path: Path) -> None:
    with opened(target, write_assistant(tmp_path / "a.gguf")) as engine:
        fresh, sequence = engine.new_sequence(), engine.new_sequence()
        compute(engine, fresh, IDS[:17])
        expected = drafts(engine, fresh, IDS[:18])
        compute(engine, sequence, IDS[:15])
        compute(engine, sequence, [*IDS[15:17], 5, 6, 7])  # drafts of which three are rejected
        for n in (None, 19, 17):
            if n is not None:
                sequence.trim(n)
            given = drafts(engine, sequence, IDS[:18])
            assert np.array_equal(given.logits, expected.logits)
        child = sequence.fork()
        assert np.array_equal(drafts(engine, child, IDS[:18]).states, expected.states)
        sequence.trim(10)
        state = head_of(engine).state_of(sequence)
        assert state.lag(IDS[:11]) is None, "the state there is of a batch before the last"
        assert state.lag(IDS[:40]) is None
        compute(engine, sequence, IDS[10:17])
        assert np.array_equal(drafts(engine, sequence, IDS[:18]).states, expected.states)


def test_an_assistant_changes_nothing_of_its_target(target: Path, tmp_path: Path) -> None:
    def logits(engine: NativeEngine, rounds: bool) -> bytes:
        sequence = engine.new_sequence()
        compute(engine, sequence, IDS[:20])
        if rounds:
            drafts(engine, sequence, IDS[:21])
        return engine.forward([Segment(sequence, IDS[20:40], range(20))]).tobytes()

    with GGUFFile.open(target) as file:
        alone = NativeEngine(file, threads=2, ctx=128, kv_type="f32", cache=cache_folder())
        expected = logits(alone, False)
        alone.close()
    with opened(target, write_assistant(tmp_path / "a.gguf")) as engine:
        assert logits(engine, True) == expected


@pytest.mark.parametrize(
    ("keys", "tensors", "message"),
    [
        ({"embedding_length_out": 96}, {}, "for a model of 96 values a token, and this one has 64"),
        ({"attention.sliding_window": 17}, {}, "layer 0 reads keys and values of .* a window of 17"),
        ({"attention.sliding_window": 1}, {}, "a window of one token"),
        ({"attention.head_count_kv": 4}, {}, "4 KV heads of 16 values"),
        ({"attention.value_length_swa": 8}, {}, "layer 0 reads keys and values"),
        ({}, {"token_embd.weight": np.zeros((319, 32), np.float32)}, "for a model of 319 tokens"),
        ({}, {"nextn.pre_projection.weight": None}, "pre_projection"),
        ({}, {"nextn.post_projection.weight": np.zeros((32, 64), np.float32)}, "post_projection"),
        ({}, {"blk.2.attn_q_norm.weight": None}, "attn_q_norm"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    keys: dict[str, Any], tensors: dict[str, Any], message: str, target: Path, tmp_path: Path
) -> None:
    path = write_assistant(tmp_path / "a.gguf", keys, **tensors)
    with (
        GGUFFile.open(target) as file,
        GGUFFile.open(path) as head_file,
        pytest.raises(EdgeLLMError, match=message) as error,
    ):
        read_assistant_head(head_file, describe(file))
    assert "\n" not in str(error.value)
