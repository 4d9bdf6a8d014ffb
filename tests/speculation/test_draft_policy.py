"""How many draft tokens a step computes: by the acceptance rate of drafts and the time of steps."""

import pytest

from edgellm.engine.step_times import StepTimes
from edgellm.options import MAX_DRAFT
from edgellm.speculation.acceptance import Acceptance
from edgellm.speculation.account import Account
from edgellm.speculation.draft_policy import DraftPolicy
from edgellm.speculation.prompt_lookup import NGRAM_SIZES, DraftTokens
from edgellm.speculation.step_plan import DraftPlan


class LookupPolicy(DraftPolicy):
    """A policy for drafts of prompt lookup alone."""

    def __init__(self, times: StepTimes) -> None:
        super().__init__(times, Acceptance(), Account())

    def draft_length(self, available: int, matched: int, beside: int = 0) -> int:
        return self.plan(DraftTokens([5] * available, matched), available, beside, None).most

    def record_outcome(self, matched: int, accepted: bool) -> None:
        self.record("lookup", matched, accepted)
        if accepted:
            self.accept(DraftPlan("lookup", 1), replies=1)


def of_steps(**seconds: float) -> StepTimes:
    """Times of steps by their number of rows: `r4=0.02`. The first one of each may run cold."""
    times = StepTimes()
    for name, each in [*seconds.items(), *seconds.items()]:
        times.record(int(name[1:]), each)
    return times


def test_the_policy_follows_the_acceptance_rate() -> None:
    policy, never, times = (made := LookupPolicy(of_steps(r1=0.02))), LookupPolicy(of_steps(r1=0.02)), StepTimes()
    assert made.draft_length(0, 4) == 0
    assert LookupPolicy(times).draft_length(MAX_DRAFT, 4) == 0, "the time of no step is known yet"
    for _ in range(50):
        policy.record_outcome(2, True)
        never.record_outcome(2, False)
    assert [policy.draft_length(most, 2) for most in (MAX_DRAFT, 2)] == [MAX_DRAFT, 2]
    assert policy.draft_length(0, 0) == 0
    never.add_token(1)
    assert (never.draft_length(MAX_DRAFT, 2), never.draft_length(MAX_DRAFT, 4)) == (0, 3), (
        "shorter matches say nothing of longer ones"
    )


class Corrected(StepTimes):
    """Another thread records shorter times between two questions."""

    def doubted_seconds(self, rows: int) -> float | None:
        found = super().doubted_seconds(rows)
        self.record(rows, 0.9 * (found or 0))
        return found


def test_times_may_become_shorter_while_a_step_is_planned() -> None:
    times = Corrected()
    times.record(1, 0.02)
    assert LookupPolicy(times).draft_length(MAX_DRAFT, 4) == 0, "nothing may be lost yet"


def one_in_three(times: StepTimes) -> LookupPolicy:
    """A policy for drafts of which a third is right."""
    policy = LookupPolicy(times)
    for _ in range(200):
        for accepted in (True, False, False):
            policy.record_outcome(1, accepted)
    return policy


def test_the_policy_follows_the_time_of_steps() -> None:
    """If a third of the drafts is right, a further row may cost up to a third of a step."""

    def length(*seconds: float) -> int:
        times = of_steps(**dict(zip(("r1", "r2", "r4", "r8"), seconds, strict=True)))
        return one_in_three(times).draft_length(MAX_DRAFT, 1)

    assert length(0.02, 0.021, 0.04, 0.04) == 1
    assert length(0.02, 0.03, 0.05, 0.06) == 0
    assert length(0.02, 0.021, 0.021, 0.04) == 3
    assert length(0.02, 0.021, 0.04, 0.021) == MAX_DRAFT


def test_beside_other_replies_drafts_must_pay_for_all() -> None:
    """A batch of four rows takes 20 ms, one of eight 30. Four drafts are 3 + 1.48 tokens in 30 ms, none is 4 in 20."""
    policy = one_in_three(of_steps(r1=0.018, r4=0.02, r8=0.03, r16=0.06))
    assert policy.draft_length(MAX_DRAFT, 1, beside=3) == 0
    for _ in range(99):
        policy.record_outcome(1, True)
    assert policy.draft_length(MAX_DRAFT, 1, beside=3) == 4, "they fill the eight rows"
    assert policy.draft_length(2, 1, beside=3) == 0, "6 tokens in 30 ms are as many as 4 in 20"
    assert policy.draft_length(3, 1, beside=2) == 1, "the fourth row costs nothing, two more do not pay"
    assert policy.draft_length(MAX_DRAFT, 1, beside=8) == MAX_DRAFT, "nine rows take as long as sixteen"


def test_what_is_not_computed_for_long_is_tried_again() -> None:
    times = of_steps(r1=0.02, r2=0.04, r4=0.05, r8=0.06)
    policy = one_in_three(times)
    tried = next(i for i in range(1000) if policy.draft_length(MAX_DRAFT, 1) or times.record(1, 0.02))
    assert 100 < tried < 400
    times = of_steps(r1=0.02, r2=0.021, r4=0.022)
    policy = LookupPolicy(times)
    for _ in range(9):
        policy.record_outcome(4, True)
    assert policy.draft_length(MAX_DRAFT, 4) == 3
    assert any(times.record(4, 0.022) or policy.draft_length(MAX_DRAFT, 4) == MAX_DRAFT for _ in range(400)), (
        "and what was never computed"
    )


def test_short_replies_doubt_a_slow_time_too() -> None:
    """Steps of four rows were 3.5 times as slow as those of one. Replies of 60 tokens can lose 1.7 steps."""
    times, tokens = of_steps(r1=0.02, r2=0.06, r4=0.07), 0
    policy = LookupPolicy(times)
    while not (drafts := policy.draft_length(3, 16)):
        tokens += 1
        assert tokens < 600, "it is never tried again"
        policy = LookupPolicy(times) if tokens % 60 == 0 else policy
        policy.add_token(1)
        times.record(1, 0.02)
    assert drafts == 3
    assert tokens > 100, "it is doubted slowly"


def test_times_that_are_no_longer_than_expected_are_not_doubted() -> None:
    times = of_steps(r1=0.02, r2=0.021, r4=0.06)
    for _ in range(5000):
        times.record(1, 0.02)
    assert [times.doubted_seconds(rows) for rows in (1, 2)] == pytest.approx([0.02, 0.021])
    assert times.doubted_seconds(4) == pytest.approx(1.3 * 0.02), "no less than expected"
    assert StepTimes().doubted_seconds(1) is None


def test_the_policy_is_not_misled_by_disturbed_steps() -> None:
    """A first step of a class that is slower than expected is not believed, nor one that is much slower than others."""

    def after(*seconds: float) -> int:
        times = of_steps(r1=0.02, r4=0.03)
        policy = LookupPolicy(times)
        for _ in range(50):
            policy.record_outcome(2, True)
        for each in seconds:
            times.record(1 + MAX_DRAFT, each)
        return policy.draft_length(MAX_DRAFT, 2)

    assert (after(), after(0.2), after(0.04), after(0.04, 100, 100), after(0.2, 0.04)) == (MAX_DRAFT,) * 5
    assert (after(0.2, 0.2), after(0.04, *[0.2] * 20)) == (3, 3)


def test_drafts_of_prompt_lookup_that_are_never_right_cost_a_reply_little() -> None:
    """However long the matches are: two steps and a hundredth of its time, and from 32 tokens on 2.8 % of it."""
    policy, tokens, lost = LookupPolicy(of_steps(r1=0.02, r2=0.021, r4=0.026, r8=0.04)), 256, 0.0
    for i in range(tokens):
        policy.add_token(1)
        plan = policy.plan(DraftTokens([5] * MAX_DRAFT, NGRAM_SIZES[i % len(NGRAM_SIZES)]), MAX_DRAFT, 0, None)
        cost = {0: 0.0, 1: 0.001, 3: 0.006, MAX_DRAFT: 0.02}[plan.most]
        lost += cost / 0.02
        policy.settle(plan, cost)
        assert lost <= 0.028 * max(32, i + 1) + 1e-9
    assert 2 < lost <= 2 + 0.01 * tokens


def test_right_drafts_of_prompt_lookup_earn_longer_ones() -> None:
    policy = LookupPolicy(of_steps(r1=0.02, r2=0.03, r4=0.042, r8=0.07))
    for _ in range(99):
        policy.record("lookup", 16, True)
    assert policy.draft_length(MAX_DRAFT, 16) == 0, "nothing may be lost before a token has come"
    policy.add_token(1)
    assert policy.draft_length(MAX_DRAFT, 16) == 1, "it may lose 0.5 steps, 3 drafts 1.1"
    policy.accept(DraftPlan("lookup", 1), replies=1)
    assert policy.draft_length(MAX_DRAFT, 16) == 3, "7 may lose 2.5 steps"
    policy.accept(DraftPlan("lookup", 3), replies=1)
    assert policy.draft_length(MAX_DRAFT, 16) == MAX_DRAFT


def test_a_class_of_rows_may_begin_with_a_cold_batch() -> None:
    """The time of the first rows of any number is corrected by the second batch at once."""
    times = StepTimes()
    for seconds in 0.06, 0.034, 0.04:
        times.record(1, seconds)
    assert times.seconds(1) == 0.034
    times.record(2, 0.063)
    assert times.seconds(2) == pytest.approx(0.034 * 1.05)
    times.record(2, 0.05)
    assert times.seconds(2) == 0.05, "it is slower than expected"


def test_how_much_longer_a_batch_took_by_its_drafts() -> None:
    times = of_steps(r1=0.02, r4=0.026)
    assert times.longer_seconds(4, 3, 0.03) == pytest.approx(0.01)
    assert times.longer_seconds(4, 3, 9.0) == pytest.approx(2 * 0.026 - 0.02), "it was disturbed"
    assert times.longer_seconds(4, 3, None) == pytest.approx(0.006), "beside a prompt"


def test_a_class_that_was_not_measured_is_judged_by_the_nearest() -> None:
    times = of_steps(r3=0.013, r300=1.0)
    assert times.seconds(1) is not None
    assert [round(times.seconds(rows) or 0, 3) for rows in (1, 2, 4, 5, 600)] == [0.01, 0.011, 0.013, 0.02, 2.0]
