"""When memory is short for all, the youngest request waits and is computed again; no reply changes, none fails."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import EdgeLLMError, Model
from edgellm.engine.host_kv_pages import HostKVPages
from edgellm.engine.protocol import Segment
from edgellm.generate.batching.admission import Admission
from edgellm.generate.batching.arrivals import Arrivals
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.batching.computation import Computation
from kquants.kv_layout import PAGE
from support.drafts import AllDrafts
from support.generation import GREEDY, RECURRENT, TINY
from support.interrupted_lines import interrupt_after
from support.model_file import ModelFile
from support.stateless import Sequence

KINDS: dict[str, dict[str, Any]] = {
    "attention": {**TINY, "context_length": 1024},
    "recurrent": {**RECURRENT, "context_length": 1024},
    "windowed": {**TINY, "context_length": 1024, "metadata": (("attention.sliding_window", 40),)},
}
PAGES = 7
"""KV pages that there are for all: those of two of the replies below, and no more."""

OPTIONS: dict[str, Any] = GREEDY | {"max_tokens": 90}
PROMPTS = [letter * 70 for letter in "ABCDEF"]


@pytest.fixture(params=KINDS)
def path(request: pytest.FixtureRequest, model_file: ModelFile) -> Path:
    return model_file(**KINDS[request.param])


@pytest.fixture
def alone(path: Path) -> list[list[int]]:
    with Model.open(path, threads=1) as model:
        return [model.generate(prompt, **OPTIONS).tokens for prompt in PROMPTS]


@pytest.fixture
def preempted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tokens that requests had when they were preempted."""
    found, preempt = list[int](), Computation.preempt

    def record(computation: Computation) -> None:
        found.append(len(computation.sequence))
        preempt(computation)

    monkeypatch.setattr(Computation, "preempt", record)
    return found


@pytest.fixture
def small(path: Path, alone: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    """A model with little memory; it is the KV pages that are limited, not those of recurrent states."""
    ensure, huge = HostKVPages.ensure_pages, "edgellm.engine.host_kv_pages.huge"
    monkeypatch.setattr("edgellm.engine.host_kv_pages.CHUNK", 0)
    monkeypatch.setattr("edgellm.engine.host_kv_pages.HUGE", 0)

    def fail(n: int) -> None:
        raise MemoryError

    def limited(store: HostKVPages, group: int, pages: int) -> None:
        with monkeypatch.context() as patch:
            if group == 0 and pages > PAGES:
                patch.setattr(huge, fail)
            ensure(store, group, pages)

    monkeypatch.setattr(HostKVPages, "ensure_pages", limited)
    with Model.open(path, threads=1) as model:
        yield model


def test_requests_that_do_not_fit_together_wait_and_are_computed_again(
    small: Model, alone: list[list[int]], preempted: list[int]
) -> None:
    barrier = threading.Barrier(len(PROMPTS))

    def run(prompt: str) -> list[int]:
        barrier.wait(30)
        return small.generate(prompt, **OPTIONS).tokens

    with ThreadPoolExecutor(len(PROMPTS)) as pool:
        assert list(pool.map(run, PROMPTS)) == alone
    assert preempted


def test_so_do_requests_with_drafts(
    small: Model, alone: list[list[int]], preempted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)
    with ThreadPoolExecutor(len(PROMPTS)) as pool:
        assert list(pool.map(lambda prompt: small.generate(prompt, **OPTIONS).tokens, PROMPTS)) == alone
    assert preempted


def test_what_does_not_fit_alone_is_an_error_and_harms_no_other(small: Model, alone: list[list[int]]) -> None:
    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(small.generate, "XYZ" * 200, **OPTIONS)
        fits = pool.submit(small.generate, PROMPTS[0], **OPTIONS)
        assert fits.result(60).tokens == alone[0]
        if not small.file.get_int("llama.attention.sliding_window", None):  # of which only the window is kept
            with pytest.raises(EdgeLLMError, match="no memory for another"):
                long.result(60)


def test_a_request_does_not_wait_for_one_that_nobody_reads(small: Model) -> None:
    held = small.stream("A" * (PAGES * PAGE - 70), **OPTIONS)
    next(held)
    with pytest.raises(EdgeLLMError, match="no memory for another"):
        small.generate(PROMPTS[1], **OPTIONS)
    held.close()
    assert small.generate(PROMPTS[1], **OPTIONS).tokens


def test_a_cancelled_request_that_was_preempted_ends(small: Model, alone: list[list[int]]) -> None:
    with ThreadPoolExecutor(len(PROMPTS)) as pool:
        streams = [small.stream(prompt, **OPTIONS) for prompt in PROMPTS]
        done = [pool.submit(stream.completion) for stream in streams]
        while not streams[0].tokens and not streams[1].tokens:
            pass
        for stream in streams[2:]:
            stream.cancel()
        tokens = [each.result(60).tokens for each in done]
    assert tokens[:2] == alone[:2]
    assert all(got == whole[: len(got)] for got, whole in zip(tokens, alone, strict=True))


@pytest.mark.parametrize("policy", ["srpt", "fcfs"])
def test_requests_that_end_in_any_way_while_memory_is_short_change_no_other(
    small: Model, alone: list[list[int]], policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)
    small._generator.session._batcher._schedule.policy = policy

    def run(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(2):
            i, ends = chance.randrange(len(PROMPTS)), chance.choice(["whole", "between tokens", "at any time"])
            stream = small.stream(PROMPTS[i], **OPTIONS)
            timer = threading.Timer(chance.uniform(0, 0.1), stream.cancel)
            if ends == "at any time":
                timer.start()
            for _ in range(chance.randrange(9) if ends == "between tokens" else 1000):
                next(stream, None)
            if ends == "between tokens":
                stream.cancel()
            expected = alone[i] if ends == "whole" else alone[i][: len(stream.tokens)]
            assert stream.tokens == expected, (i, ends)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(6)))
    assert [small.generate(prompt, **OPTIONS).tokens for prompt in PROMPTS] == alone


def test_preempted_requests_go_on_one_by_one_the_oldest_first_and_new_ones_behind_them() -> None:
    """Otherwise all would go on whenever one has ended, and preempt each other again."""
    arrivals, ends, each = Arrivals(lambda: 0.0), list[ExitStack](), list[Computation]()
    waiting: dict[Computation, None] = {}
    admission = Admission(waiting, arrivals)

    def come(is_step: bool) -> None:
        sequence, flag = Sequence(), CancelFlag(None)  # type: ignore[arg-type]
        sequence.tokens = [1] * 5
        ends.append(ExitStack())
        ends[-1].enter_context(arrivals.join(flag))
        each.append(Computation(Segment(sequence, [1], [0]), flag, is_step))
        waiting[each[-1]] = None
        arrivals.came(flag)

    def admitted() -> list[int]:
        return [each.index(one) for one in admission.admitted()]

    for _ in range(4):
        come(is_step=True)
    assert admission.make_room_for(each[1]) and admission.make_room_for(each[1])
    assert admitted() == [0, 1]
    come(is_step=False)
    assert admitted() == [0, 1], "a new prompt waits behind those that were preempted"
    del waiting[each[0]]
    ends[0].close()
    assert admitted() == admitted() == [1, 2]
    del waiting[each[2]]  # it has its logits
    assert admitted() == [1, 3]
    assert admission.make_room_for(each[1])
    assert admitted() == [1, 3], "the new prompt had memory, of what was cached of it"
    assert admission.make_room_for(each[1])
    assert admitted() == [1]
    del waiting[each[1]]
    ends[1].close()
    assert admitted() == [3]
    del waiting[each[3]]
    assert admitted() == [4]


def test_a_preempted_request_continues_from_what_the_prefix_cache_still_has(path: Path) -> None:
    ids = list(range(68, 68 + 100))
    with Model.open(path, threads=1) as model:
        engine: Any = model.engine
        sequence = engine.begin(ids)
        computation = Computation(Segment(sequence, ids, [99]), CancelFlag(engine))
        part = computation.next_part(70)
        computation.advance(part, engine.forward([part]))
        for kept in (70, 0):
            computation.preempt()
            assert (len(sequence), computation.left, computation.ready) == (0, 100, 70)
            if not kept:
                model.engine.evict()
                model.engine.evict()
            computation.resume()
            assert (len(sequence), computation.left) == (kept, 100 - kept)
        while computation.left:
            part = computation.next_part(computation.ready)
            computation.advance(part, engine.forward([part]))
        assert (computation.logits[0] == model.logits(ids)[99]).all()


def test_an_interrupt_amid_a_preemption_changes_no_bit(path: Path) -> None:
    """Ctrl-C ends the request of the main thread, which preempts another one at that moment."""
    ids = list(range(68, 68 + 100))
    with Model.open(path, threads=1) as model:
        engine: Any = model.engine
        expected = model.logits(ids)[99]
        for lines in count():
            sequence = engine.begin(ids)
            sequence.trim(0)
            engine.forward([Segment(sequence, ids[:95], marks=[40, 94])])
            engine.forward([Segment(sequence, [ids[95], 1, 2, 3], range(4), drafts=3)])
            step = Segment(sequence, ids[96:], range(4), drafts=3)
            computation = Computation(step, CancelFlag(engine), is_step=True, length=96)
            interrupted = interrupt_after(lines, computation.preempt)
            computation.drop_rejected()
            computation.resume()
            assert not computation.running
            while computation.left:
                part = computation.next_part(computation.ready)
                computation.advance(part, engine.forward([part]))
            assert sequence.tokens == ids
            assert (computation.logits[-1] == expected).all()
            engine.retire(sequence)
            if not interrupted:
                break
        assert lines > 30


def test_a_preempted_request_keeps_its_embeddings(path: Path) -> None:
    """The prefix cache does not know them: it is computed again from its first token."""
    ids, embeddings = list(range(68, 78)), {at: np.ones(TINY["width"], np.float32) for at in (3, 8)}
    with Model.open(path, threads=1) as model:
        engine: Any = model.engine
        whole = engine.forward([Segment(engine.new_sequence(), ids, [9], embeddings)])
        computation = Computation(Segment(engine.begin(ids), ids, [9], embeddings), CancelFlag(engine))
        for is_preempted in (False, True, False):
            if is_preempted:
                computation.preempt()
                computation.resume()
            part = computation.next_part(5)
            computation.advance(part, engine.forward([part]))
        assert not computation.left
        assert (computation.logits == whole).all()
