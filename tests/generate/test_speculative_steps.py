"""The steps of speculative decoding, with engines that compute nothing: their rows, and what the policy is told."""

from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from edgellm.engine.protocol import Stopped
from edgellm.errors import NoMemoryError
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.session import Session
from edgellm.generate.speculative_decoder import SpeculativeDecoder
from edgellm.speculation.draft_policy import DraftPolicy
from edgellm.speculation.prompt_lookup import DraftTokens, PromptLookup
from edgellm.speculation.step_plan import PLAIN, DraftPlan, PassCost
from kquants.kv_layout import PAGE
from support.drafts import AllDrafts
from support.stateless import Sequence


@pytest.fixture(autouse=True)
def all_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)


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
    steps, lookup, cancel = decoding(engine, sequence)
    tokens = [3, 3, 3, 3, 5, 3, 3, 3]
    with steps:
        for i, token in enumerate(tokens, 1):
            lookup.accept(token)
            steps.decode(token)
            assert steps.length == i
            held = sequence.tokens[: steps.length]
            assert held == tokens[: len(held)]
    assert engine.rows[:4] == [1, 8, 4, 1], "four accepted tokens again, and the one that was sampled"
    steps._session.exclusively(lambda: None, cancel)
    assert len(sequence) in (5, len(tokens)), "it holds no rejected draft once another request can use it"


class Full(Counting):
    """It has no memory for drafts."""

    evicted = 0

    def evict(self) -> bool:
        self.evicted += 1
        return False

    def forward(self, segments: Any) -> Any:
        if segments[0].drafts:
            raise NoMemoryError("full")
        return super().forward(segments)


@pytest.mark.parametrize("needs_marks", [True, False])
def test_without_memory_for_drafts_a_reply_goes_on(needs_marks: bool) -> None:
    """Nothing is evicted for the states behind drafts; without states it is the certain token that needs a page."""
    engine, sequence = Full(True), Sequence()
    sequence.needs_marks = needs_marks
    session, lookup = Session(engine, "m"), PromptLookup([])
    steps = SpeculativeDecoder(session, sequence, lookup, CancelFlag(engine))
    for _ in range(6):
        lookup.accept(3)
        steps.decode(3)
    assert (engine.rows, engine.evicted, steps.length) == ([1] * 6, 0 if needs_marks else 1, 6)


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


def test_drafts_go_no_further_than_the_reply() -> None:
    engine: Any = Counting(True)
    lookup = PromptLookup([])
    steps = SpeculativeDecoder(Session(engine, "m"), Sequence(), lookup, CancelFlag(engine), most=6)
    for _ in range(5):
        lookup.accept(3)
        steps.decode(3)
    assert engine.rows == [1, 4], "after the second of six tokens three drafts and one token are left"


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


def test_the_policy_is_told_what_was_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[tuple[object, ...]]()

    class Told(AllDrafts):
        def record(self, source: str, signal: int, accepted: bool) -> None:
            told.append((source, signal, accepted))

    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", Told)
    engine = Counting(True)
    steps, lookup, _ = decoding(engine)
    for token in 3, 3, 3, 3, 5:
        lookup.accept(token)
        steps.decode(token)
    assert (told, engine.rows) == ([("lookup", 1, right) for right in (True, True, False)], [1, 8, 1])
    assert steps._session.drafts.times.seconds(8), "and the session how long the step took"


def test_a_draft_that_was_not_computed_is_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[tuple[object, ...]]()

    class Never(DraftPolicy):
        def plan(self, lookup: DraftTokens, room: int, beside: int, cost: PassCost | None) -> DraftPlan:
            return PLAIN

        def record(self, source: str, signal: int, accepted: bool) -> None:
            told.append((source, signal, accepted))

    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", Never)
    engine = Counting(True)
    steps, lookup, _ = decoding(engine)
    for token in 3, 3, 3, 5:
        lookup.accept(token)
        steps.decode(token)
    assert (told, engine.rows) == ([("lookup", 1, True), ("lookup", 2, False)], [1, 1, 1, 1])
