"""Sequences of a model with recurrent layers: after any steps a token's logits have the bits of a fresh sequence."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment, Stopped
from edgellm.errors import ContextOverflowError, EdgeLLMError, NoMemoryError
from support.engine_bits import extend, forward, fresh, opened
from support.generation import RECURRENT
from support.logits_bits import IDS, Bits
from support.model_file import ModelFile

Tokens = tuple[int, ...]


@pytest.fixture(scope="module")
def engine(model_file: ModelFile) -> Iterator[NativeEngine]:
    with opened(model_file(**RECURRENT), threads=2, ctx=400) as engine:
        yield engine


def compute(engine: NativeEngine, segment: Segment[PagedSequence]) -> Bits:
    return engine.forward([segment]).view(np.uint32)


def fail_midway(engine: NativeEngine, segment: Segment[PagedSequence], error: type[Exception]) -> None:
    """Compute half of the ops of a batch, and raise."""
    threads: Any = engine._runner.cpu.threads
    run = threads.run

    def half(program: int, count: int, batch: int, used: int) -> bool:
        run(program, count // 2, batch, used)
        raise error("midway")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(error):
        patch.setattr(threads, "run", half)
        engine.forward([segment])


def pages_in_use(engine: NativeEngine) -> list[int]:
    """Pages with references, of each KV group and of states."""
    gc.collect()
    states: Any = engine._runner.checkpoints.states
    pools = [*engine._runner.pools, states.pool]
    for pool in pools:
        pool.release(pool.acquire())  # what was dropped is released by the next `acquire`
    return [sum(n > 0 for n in pool._references) for pool in pools]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from([1, 7, 64]), st.integers(0, 3)),
        st.tuples(st.just("draft"), st.integers(1, 7), st.integers(0, 7)),
        st.tuples(st.just("trim"), st.integers(0, 20), st.integers(0, 9)),
        st.tuples(st.just("stop"), st.sampled_from([1, 7, 64]), st.integers(0, 3)),
        st.tuples(st.sampled_from(["mark", "fork", "drop"]), st.just(0), st.just(0)),
    ),
    max_size=12,
)


@given(STEPS)
@settings(max_examples=25, deadline=None)
def test_any_steps_leave_the_bits_of_a_fresh_sequence(engine: NativeEngine, steps: list[tuple[str, int, int]]) -> None:
    rng, known = np.random.default_rng(0), dict[Tokens, Bits]()
    held = [engine.new_sequence()]

    def check(sequence: PagedSequence, got: Bits) -> None:
        ids = tuple(sequence.tokens)
        if ids not in known:
            known[ids] = fresh(engine, list(ids))
        assert np.array_equal(got, known[ids][len(ids) - len(got) :])

    for step, amount, other in steps:
        sequence = held[rng.integers(len(held))]
        before, length = list(sequence.tokens), len(sequence)
        new = [int(token) for token in rng.integers(3, 320, amount if length < 180 else 1)]
        marks = sorted(int(i) for i in rng.integers(0, len(new), other)) if step in ("append", "stop") and new else []
        segment = Segment(sequence, new, range(len(new)), marks=marks, retry_mark=0 if other == 1 else None)
        match step:
            case "append":
                check(sequence, compute(engine, segment))
                assert all(sequence.reach(length + i + 1) == length + i + 1 for i in marks)
            case "draft":
                check(sequence, compute(engine, Segment(sequence, new, range(len(new)), drafts=len(new) - 1)))
                kept = length + 1 + min(other, len(new) - 1)
                assert sequence.trim(kept) == kept
            case "trim":
                wanted = max(0, length - amount * (1 + other))
                reach = sequence.reach(wanted)
                assert sequence.trim(wanted) == reach == len(sequence) <= wanted
                assert sequence.tokens == before[:reach]
            case "stop":
                fail_midway(engine, segment, Stopped)
                assert (sequence.tokens, sequence.reach(length)) == (before, length)
                check(sequence, compute(engine, segment))
            case "mark":
                sequence.mark()
            case "fork" if len(held) < 4:
                held.append(sequence.fork())
            case "drop" if len(held) > 1:
                held.remove(sequence)
    for sequence in held:
        check(sequence, forward(engine, (sequence, [5, 6]))[0])
    held.clear()
    del sequence
    if steps:
        del segment
    assert pages_in_use(engine) == [0, 0], "no page is lost"


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_change_no_bit(engine: NativeEngine, chunk: int) -> None:
    assert np.array_equal(extend(engine, engine.new_sequence(), IDS, chunk), fresh(engine, IDS))


def test_sequences_of_one_batch_do_not_touch_each_other(engine: NativeEngine) -> None:
    whole, other = fresh(engine, IDS), fresh(engine, IDS[::-1])
    a, b = engine.new_sequence(), engine.new_sequence()
    forward(engine, (a, IDS[:40]))
    first, second = Segment(a, IDS[40:60], range(20), marks=[9]), Segment(b, IDS[::-1][:30], range(30), marks=[19])
    got = engine.forward([first, second]).view(np.uint32)
    assert np.array_equal(got, np.concatenate([whole[40:60], other[:30]]))
    assert (a.trim(55), b.trim(25)) == (50, 20)
    left, right = forward(engine, (a, IDS[50:]), (b, IDS[::-1][20:]))
    assert np.array_equal(left, whole[50:])
    assert np.array_equal(right, other[20:])


def test_a_segment_without_tokens_changes_nothing(engine: NativeEngine) -> None:
    whole, sequence, empty = fresh(engine, IDS), engine.new_sequence(), engine.new_sequence()
    for ids in (IDS[:40], IDS[40:60]):
        segments = [Segment(empty, []), Segment(sequence, ids), Segment(engine.new_sequence(), [])]
        engine.forward(segments)
    assert len(empty) == 0
    assert np.array_equal(forward(engine, (empty, []), (sequence, IDS[60:]))[1], whole[60:])


def test_all_tokens_of_a_segment_may_be_drafts(engine: NativeEngine) -> None:
    whole, sequence = fresh(engine, IDS), engine.new_sequence()
    forward(engine, (sequence, IDS[:40]))
    compute(engine, Segment(sequence, [5, 6, 7], drafts=3))
    assert sequence.trim(40) == 40
    assert np.array_equal(forward(engine, (sequence, IDS[40:]))[0], whole[40:])


@pytest.mark.parametrize(
    "wrong", [{"marks": [9, 10]}, {"marks": [-1]}, {"retry_mark": 10}, {"retry_mark": -1}, {"drafts": 11}]
)
def test_marks_and_drafts_must_be_tokens_of_the_segment(engine: NativeEngine, wrong: dict[str, Any]) -> None:
    sequence = engine.new_sequence()
    with pytest.raises(EdgeLLMError, match=r"marks can be behind tokens 0 to 9|cannot have 11 drafts"):
        engine.forward([Segment(sequence, IDS[:10], **wrong)])
    assert (len(sequence), sequence.checkpoints.points) == (0, [])


@pytest.mark.parametrize("error", [Stopped, KeyboardInterrupt, NoMemoryError])
def test_a_batch_that_fails_leaves_the_sequence_as_it_was(engine: NativeEngine, error: type[Exception]) -> None:
    sequence, whole = engine.new_sequence(), fresh(engine, IDS)
    compute(engine, Segment(sequence, IDS[:60], [59], marks=[19], retry_mark=57))
    again = Segment(sequence, IDS[60:], range(90), marks=[5], retry_mark=80)
    for _ in range(3):
        fail_midway(engine, again, error)
        assert [sequence.reach(n) for n in (60, 40)] == [60, 20]
    assert np.array_equal(compute(engine, again), whole[60:])
    assert sequence.trim(62) == 20, "the point for a retry is another one now"
    sequence.trim(0)
    assert np.array_equal(extend(engine, sequence, IDS, 50), whole)


def test_what_is_too_long_changes_nothing(engine: NativeEngine) -> None:
    sequence, whole = engine.new_sequence(), fresh(engine, IDS)
    forward(engine, (sequence, IDS[:100]))
    with pytest.raises(ContextOverflowError):
        forward(engine, (sequence, [5] * 301))
    assert np.array_equal(forward(engine, (sequence, IDS[100:]))[0], whole[100:])


def test_an_empty_sequence_can_be_forked_trimmed_and_marked(engine: NativeEngine) -> None:
    sequence = engine.new_sequence()
    sequence.mark()
    child = sequence.fork()
    assert (sequence.trim(0), child.trim(3), sequence.reach(5)) == (0, 0, 0)
    assert np.array_equal(forward(engine, (child, IDS))[0], fresh(engine, IDS))
    assert np.array_equal(forward(engine, (sequence, IDS))[0], fresh(engine, IDS))


def test_a_sequence_is_computed_again_with_its_checkpoints(engine: NativeEngine) -> None:
    """As after the loss of a GPU."""
    sequence = engine.new_sequence()
    compute(engine, Segment(sequence, IDS[:90], [89], marks=[19, 59], retry_mark=88))
    engine._failover.restore(sequence)
    assert [sequence.reach(n) for n in (90, 89, 30)] == [90, 60, 20]
    assert sequence.trim(70) == 60
    assert np.array_equal(forward(engine, (sequence, IDS[60:]))[0], fresh(engine, IDS)[60:])
