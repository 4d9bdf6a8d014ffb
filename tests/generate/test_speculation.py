"""Speculative decoding: the same text to the bit, in fewer steps, and no rejected token stays in a sequence."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgellm import EdgeLLMError, Model
from edgellm.engine.limits import MAX_DRAFT
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.protocol import Stopped
from edgellm.errors import NoMemoryError
from edgellm.generate.cancel_flag import CancelFlag
from edgellm.generate.draft_policy import DraftPolicy
from edgellm.generate.prompt_lookup import PromptLookup
from edgellm.generate.session import Session
from edgellm.generate.speculation import SpeculativeDecoder
from kquants.kv_layout import PAGE
from support.generation import RECURRENT, TINY
from support.model_file import ModelFile
from support.stateless import Sequence

NO_END = {2: -float("inf")}


class Always(DraftPolicy):
    """A policy that computes every draft completely."""

    def draft_length(self, available: int, matched: int) -> int:
        return available


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of steps on this machine has no effect here."""
    monkeypatch.setattr("edgellm.generate.speculation.DraftPolicy", Always)


@pytest.fixture(scope="module", params=[TINY, RECURRENT], ids=["attention", "recurrent"])
def path(model_file: ModelFile, request: pytest.FixtureRequest) -> Path:
    return model_file(**request.param)


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    with Model.open(path, threads=2) as model:
        yield model


@contextmanager
def counted(model: Model) -> Iterator[list[Any]]:
    """The rows of each step that the model's engine computes."""
    forward, steps = model.engine.forward, list[Any]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.engine, "forward", lambda segments: steps.append(segments) or forward(segments))
        yield steps


def written(model: Model, prompt: str, speculates: bool, **options: Any) -> tuple[list[Any], int]:
    """Ids and log-probabilities of a reply, with the most likely tokens, and its number of steps."""
    with pytest.MonkeyPatch.context() as patch, counted(model) as steps:
        patch.setattr(NativeEngine, "batch_invariant", speculates)
        tokens = list(model.stream(prompt, logprobs=3, **options))
    return [(token.id, token.logprob, token.top_logprobs) for token in tokens], len(steps)


@given(
    prompt=st.sampled_from(["in", "the time was and the time was", "aa bb aa bb aa"]),
    temp=st.sampled_from([0.0, 0.5, 1.5]),
    seed=st.integers(0, 99),
    penalty=st.sampled_from([1.0, 1.3]),
    few=st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_text_is_the_same_to_the_bit(
    model: Model, prompt: str, temp: float, seed: int, penalty: float, few: bool
) -> None:
    """With a small vocabulary drafts are often right, with a large one seldom; penalties depend on all tokens."""
    bias = {i: NO_END[2] for i in range(320) if i not in range(100, 104)} if few else NO_END
    options = {"temp": temp, "seed": seed, "repeat_penalty": penalty, "logit_bias": bias, "max_tokens": 30}
    plain, steps = written(model, prompt, False, **options)
    assert (len(plain), steps) == (30, 30), "the prompt, and 29 tokens"
    again, fewer = written(model, prompt, True, **options)
    assert again == plain
    assert fewer <= steps, "a draft that was wrong costs no step"


def test_repetitive_text_takes_few_steps_and_each_counts_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "edgellm.perf.mbu.MBUEstimator.mbu", lambda estimator, steps_per_second, depth: steps_per_second
    )
    with counted(model) as steps:
        reply = model.generate("in", logit_bias={70: 1000.0}, max_tokens=1 + 3 * (1 + MAX_DRAFT))
    assert set(reply.tokens) == {70}
    assert len(steps) <= 1 + 3 + 2, "the prompt, and drafts that begin when the token came twice"
    assert reply.stats.mbu is not None
    assert reply.stats.decode_tps is not None
    assert reply.stats.mbu / reply.stats.decode_tps == pytest.approx((len(steps) - 1) / (len(reply.tokens) - 1))


@pytest.mark.parametrize("ctx", range(9, 20))
def test_drafts_end_where_the_context_does(path: Path, ctx: int) -> None:
    with Model.open(path, threads=1, ctx=ctx) as model:
        n = len(model.tokenizer.encode("the time", add_special=True))
        reply = model.generate("the time", logit_bias={70: 1000.0})
    assert reply.tokens == [70] * (ctx - n + 1)


def test_a_conversation_continues_from_accepted_tokens(model: Model) -> None:
    """A reply that ends inside a draft leaves the sequence without drafted tokens."""
    ids = model.tokenizer.encode("the time", add_special=True)
    for taken in range(1, 12):
        sequence, session = model.engine.new_sequence(), Session(model.engine, "m")
        cancel = CancelFlag(model.engine)
        session.prefill(sequence, ids, cancel)
        lookup = PromptLookup(ids)
        with SpeculativeDecoder(session, sequence, lookup, cancel) as steps:
            for _ in range(taken):
                lookup.accept(70)
                logits = steps.decode(70)
            assert steps.length == len(ids) + taken
        assert sequence.tokens == ids + [70] * taken
        assert np.array_equal(logits, model.logits(ids + [70] * taken)[-1])
        # And what is computed behind it is what that makes of it.
        after, _ = session.decode(sequence, [80, 81], cancel)
        assert np.array_equal(after, model.logits([*ids, *[70] * taken, 80, 81])[-2:])


class Counting:
    """An engine that computes nothing and records the rows of each step."""

    ctx, vocab, max_rows = 1000, 10, 100

    def __init__(self, batch_invariant: bool) -> None:
        self.batch_invariant, self.rows = batch_invariant, list[int]()

    def forward(self, segments: Any) -> Any:
        (segment,) = segments
        self.rows.append(len(segment.tokens))
        segment.sequence.tokens.extend(segment.tokens)
        return np.zeros((len(segment.wanted), self.vocab), np.float32)

    def clear_stop(self) -> None:
        """Nothing was stopped."""

    stop = clear_stop


def decoding(engine: Any, sequence: Sequence | None = None) -> tuple[SpeculativeDecoder, PromptLookup, CancelFlag]:
    lookup, cancel = PromptLookup([]), CancelFlag(engine)
    return (
        SpeculativeDecoder(Session(engine, "m"), Sequence() if sequence is None else sequence, lookup, cancel),
        lookup,
        cancel,
    )


class Coarse(Sequence):
    """A sequence that goes back to multiples of five tokens alone."""

    def trim(self, n: int) -> int:
        return super().trim(n if n >= len(self) else n // 5 * 5)


def test_accepted_tokens_that_are_dropped_with_rejected_ones_are_computed_again() -> None:
    engine = Counting(True)
    sequence = Coarse()
    steps, lookup, _ = decoding(engine, sequence)
    tokens = [3, 3, 3, 3, 5, 3, 3, 3]
    with steps:
        for i, token in enumerate(tokens, 1):
            lookup.accept(token)
            steps.decode(token)
            assert steps.length == i
            held = sequence.tokens[: steps.length]
            assert held == tokens[: len(held)]
    assert engine.rows[:4] == [1, 8, 4, 1], "four accepted tokens again, and the one that was sampled"
    assert len(sequence) in (5, len(tokens))


class Full(Counting):
    """It has no memory for drafts."""

    def forward(self, segments: Any) -> Any:
        if segments[0].drafts:
            raise NoMemoryError("full")
        return super().forward(segments)


def test_without_memory_for_drafts_a_reply_goes_on_and_evicts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, evicted = Full(True), list[bool]()
    session, lookup = Session(engine, "m"), PromptLookup([])
    cache = SimpleNamespace(evict=lambda: evicted.append(True))
    monkeypatch.setattr(session, "caches", [cache])
    steps = SpeculativeDecoder(session, Sequence(), lookup, CancelFlag(engine))
    for _ in range(6):
        lookup.accept(3)
        steps.decode(3)
    assert (engine.rows, evicted, steps.length) == ([1] * 6, [], 6)


def test_drafts_need_no_page_of_their_own() -> None:
    """With full memory a reply ends no earlier because of drafts, and no sequence is evicted for one."""
    engine = Counting(True)
    steps, lookup, _ = decoding(engine)
    for _ in range(3 * PAGE):
        lookup.accept(3)
        steps.decode(3)
    assert all(
        start % PAGE + count <= PAGE for start, count in zip(accumulate(engine.rows), engine.rows[1:], strict=False)
    )


@pytest.mark.parametrize("invariant", [True, False])
def test_rows_that_depend_on_their_batch_are_computed_alone(invariant: bool) -> None:
    engine = Counting(invariant)
    steps, lookup, _ = decoding(engine)
    for _ in range(2 + 8 + 8):
        lookup.accept(3)
        steps.decode(3)
    assert engine.rows == ([1, 8, 8, 8] if invariant else [1] * 18)


def test_a_wish_to_stop_ends_it_between_drafted_tokens() -> None:
    engine = Counting(True)
    steps, lookup, cancel = decoding(engine)
    for _ in range(4):
        lookup.accept(3)
        steps.decode(3)
    cancel()
    lookup.accept(3)
    with pytest.raises(Stopped):
        steps.decode(3)
    assert (steps.length, engine.rows) == (4, [1, 8])


def test_a_closed_model_gives_no_drafted_tokens(path: Path) -> None:
    with Model.open(path, threads=1) as model:
        generation = model.stream("in", logit_bias={70: 1000.0})
        for _ in range(4):
            next(generation)
    with pytest.raises(EdgeLLMError, match="was closed"):
        next(generation)


def test_the_policy_is_told_what_was_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[tuple[object, ...]]()

    class Told(Always):
        def record_outcome(self, matched: int, right: bool) -> None:
            told.append((matched, right))

        def record_step(self, count: int, seconds: float) -> None:
            told.append((f"{count} drafted", seconds > 0))

    monkeypatch.setattr("edgellm.generate.speculation.DraftPolicy", Told)
    steps, lookup, _ = decoding(Counting(True))
    for token in 3, 3, 3, 3, 5:
        lookup.accept(token)
        steps.decode(token)
    assert told == [("0 drafted", True), ("7 drafted", True), (1, True), (1, True), (1, False), ("0 drafted", True)]


def test_a_draft_that_was_not_computed_is_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[tuple[int, bool]]()

    class Never(DraftPolicy):
        def draft_length(self, available: int, matched: int) -> int:
            return 0

        def record_outcome(self, matched: int, right: bool) -> None:
            told.append((matched, right))

    monkeypatch.setattr("edgellm.generate.speculation.DraftPolicy", Never)
    engine = Counting(True)
    steps, lookup, _ = decoding(engine)
    for token in 3, 3, 3, 5:
        lookup.accept(token)
        steps.decode(token)
    assert (told, engine.rows) == ([(1, True), (2, False)], [1, 1, 1, 1])


def test_the_policy_follows_the_acceptance_rate() -> None:
    policy, never = DraftPolicy(), DraftPolicy()
    assert policy.draft_length(MAX_DRAFT, 4) == 0, "the time of a step is not known yet"
    for each in policy, never:
        each.record_step(0, 0.02)
    for _ in range(50):
        policy.record_outcome(2, True)
        never.record_outcome(2, False)
    assert (policy.draft_length(MAX_DRAFT, 2), policy.draft_length(2, 2), policy.draft_length(0, 0)) == (
        MAX_DRAFT,
        2,
        0,
    )
    assert (never.draft_length(MAX_DRAFT, 2), never.draft_length(MAX_DRAFT, 4)) == (0, 3), (
        "shorter matches say nothing of longer ones"
    )


def test_the_policy_follows_the_time_of_steps() -> None:
    """If a third of the drafts is right, a further row may cost up to a third of a step; costs may change."""

    def after(one: float, two: float, four: float, eight: float) -> DraftPolicy:
        policy = DraftPolicy()
        for _ in range(200):
            policy.record_outcome(1, True)
            policy.record_outcome(1, False)
            policy.record_outcome(1, False)
            for count, seconds in (0, one), (1, two), (3, four), (MAX_DRAFT, eight):
                policy.record_step(count, seconds)
        return policy

    assert after(0.02, 0.021, 0.04, 0.04).draft_length(MAX_DRAFT, 1) == 1
    assert after(0.02, 0.03, 0.05, 0.06).draft_length(MAX_DRAFT, 1) == 0
    assert after(0.02, 0.021, 0.021, 0.04).draft_length(MAX_DRAFT, 1) == 3
    assert after(0.02, 0.021, 0.04, 0.021).draft_length(MAX_DRAFT, 1) == MAX_DRAFT
    policy = after(0.02, 0.04, 0.05, 0.06)
    tried = next(i for i in range(1000) if policy.draft_length(MAX_DRAFT, 1) or policy.record_step(0, 0.02))
    assert 100 < tried < 400, "it is not tried for a long time, but then again"
    policy = DraftPolicy()
    for _ in range(9):
        policy.record_outcome(4, True)
        for count, seconds in (0, 0.02), (1, 0.021), (3, 0.022):
            policy.record_step(count, seconds)
    assert policy.draft_length(MAX_DRAFT, 4) == 3
    assert any(policy.record_step(3, 0.022) or policy.draft_length(MAX_DRAFT, 4) == MAX_DRAFT for _ in range(400)), (
        "what was never tried, too"
    )


def test_the_policy_is_not_misled_by_disturbed_steps() -> None:
    """The first step of a class is believed; one that takes much longer than those before is not, at first."""

    def after(*seconds: float) -> int:
        policy = DraftPolicy()
        policy.record_step(0, 0.02)
        policy.record_step(3, 0.04)
        for _ in range(50):
            policy.record_outcome(2, True)
        for each in seconds:
            policy.record_step(MAX_DRAFT, each)
        return policy.draft_length(MAX_DRAFT, 2)

    assert (after(), after(0.04), after(0.04, 100, 100), after(0.2), after(0.04, *[0.2] * 20)) == (
        MAX_DRAFT,
        MAX_DRAFT,
        MAX_DRAFT,
        3,
        3,
    )
