"""The figures of a generation, with a clock that the test turns."""

from dataclasses import asdict
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm.generate.draft_tally import DraftStats
from edgellm.generate.timing import RequestTimer
from edgellm.perf.mbu import MBUEstimator

DEVICES = [{"name": "CPU", "blocks": 3, "bytes": 100}]


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def run(clock: Clock, gaps: list[float]) -> RequestTimer:
    """A request: 0.5 s of other work, 2 s of prefill for 40 tokens of which 10 are cached, then tokens."""
    timer = RequestTimer(lambda: DEVICES, clock=clock)
    clock.now += 0.5
    timer.prompt_tokens, timer.cached_tokens = 40, 10
    timer.record_computing()
    with timer.prefill(10) as progress:
        clock.now += 2
        progress(30, 30)
    for gap in gaps:
        clock.now += gap
        timer.record_token()
    return timer


def test_every_figure_by_hand(clock: Clock) -> None:
    stats = run(clock, [0.25, 0.1, 0.2, 0.1, 0.4]).stats()
    assert (stats.prompt_tokens, stats.cached_tokens, stats.generated_tokens) == (40, 10, 5)
    assert stats.queued_s == pytest.approx(0.5)
    assert stats.ttft_s == pytest.approx(2.75)
    assert stats.prefill_tps == pytest.approx(15)  # 30 tokens in 2 s
    assert stats.decode_tps == pytest.approx(5)  # 4 tokens in 0.8 s
    assert stats.mbu is None
    assert stats.devices == DEVICES


def test_percentiles_are_numpys(clock: Clock) -> None:
    gaps = np.random.default_rng(1).uniform(0.01, 0.2, 50).tolist()
    stats = run(clock, [1.0, *gaps]).stats()
    p50, p95 = np.percentile(1000 * np.array(gaps), [50, 95])
    assert stats.itl_ms == {"p50": pytest.approx(p50), "p95": pytest.approx(p95)}


def test_no_speed_without_a_duration(clock: Clock) -> None:
    none, one, two = (run(clock, gaps).stats() for gaps in ([], [0.1], [0.1, 0.2]))
    assert (none.ttft_s, none.decode_tps, none.itl_ms) == (None, None, None)
    assert none.prefill_tps == pytest.approx(15)
    assert (one.ttft_s, one.decode_tps, one.itl_ms) == (pytest.approx(2.6), None, None)
    assert two.decode_tps == pytest.approx(5)
    assert two.itl_ms == {"p50": pytest.approx(200), "p95": pytest.approx(200)}
    assert RequestTimer(lambda: DEVICES).stats().prefill_tps is None


def test_a_clock_that_stands_still_breaks_nothing(clock: Clock) -> None:
    stats = run(clock, [0.0, 0.0, 0.0]).stats()
    assert (stats.decode_tps, stats.itl_ms) == (None, {"p50": 0, "p95": 0})


def test_a_request_is_queued_until_its_first_batch_begins_or_it_ends(clock: Clock) -> None:
    computed, never = (RequestTimer(lambda: DEVICES, clock=clock) for _ in range(2))
    clock.now += 3
    assert computed.stats().queued_s == pytest.approx(3)
    for _ in range(2):
        computed.record_computing()
        clock.now += 1
    never.end()
    clock.now += 1
    assert [each.stats().queued_s for each in (computed, never)] == pytest.approx([3, 5])


def test_stats_of_a_token_stay_those_of_its_time(clock: Clock) -> None:
    timer = run(clock, [0.1, 0.2, 0.3])
    assert timer.stats(2) == run(clock, [0.1, 0.2]).stats()
    assert timer.stats(2).generated_tokens == 2


@pytest.mark.parametrize(("computed", "speed"), [(0, None), (12, 6)])
def test_an_interrupted_prefill_counts_computed_tokens(clock: Clock, computed: int, speed: float | None) -> None:
    timer = RequestTimer(lambda: DEVICES, clock=clock)
    with pytest.raises(KeyboardInterrupt), timer.prefill(10) as progress:
        clock.now += 1
        progress(computed, 30)
        clock.now += 1
        raise KeyboardInterrupt
    assert timer.stats().prefill_tps == speed


def test_in_words(clock: Clock) -> None:
    words = "prompt 40 (10 cached) · generated 5 · TTFT 2.750 s · prefill 15.0 t/s · decode 5.0 t/s"
    assert str(run(clock, [0.25, 0.1, 0.2, 0.1, 0.4]).stats()) == words
    assert str(RequestTimer(lambda: DEVICES).stats()) == "generated 0"


class HalfAtFive:
    """An MBUEstimator: half of the bandwidth at 5 tokens per second, 40 tokens deep; more at more of either.

    A byte that is read to draft takes one second of it.
    """

    def mbu(self, tps: float, depth: float, draft_bytes: float) -> float:
        return 0.5 * tps / 5 * (1 + (depth - 40) / 100) + draft_bytes


def test_the_share_of_the_bandwidth_at_the_mean_depth(clock: Clock) -> None:
    timer = run(clock, [0.25, 0.1, 0.2, 0.1, 0.4])
    timer.mbu_estimator = cast(MBUEstimator, HalfAtFive())
    # The 4 tokens after the first are computed with 40, 41, 42 and 43 tokens before them.
    assert timer.stats().mbu == pytest.approx(0.5 * 1.015)
    assert str(timer.stats()).endswith(" · decode 5.0 t/s · MBU 0.51")
    assert timer.stats(2).mbu == pytest.approx(0.5 * 10 / 5)  # one token, 0.1 s after the first
    assert timer.stats(1).mbu is None


def test_accepted_draft_tokens_read_no_weights(clock: Clock) -> None:
    timer = run(clock, [0.25, 0.1])
    timer.mbu_estimator = cast(MBUEstimator, HalfAtFive())
    timer.drafts.draft("lookup", 3)
    for accepted, gap in (True, 0.0), (True, 0.0), (False, 0.1):
        if accepted:
            timer.drafts.accept("lookup")
        clock.now += gap
        timer.record_token()
    # 4 tokens after the first in 0.2 s, by two steps; the mean depth is 41.5.
    assert timer.stats().decode_tps == pytest.approx(20)
    assert timer.stats().mbu == pytest.approx(0.5 * 10 / 5 * 1.015)
    assert timer.stats(2).mbu == pytest.approx(0.5 * 10 / 5), "one step in 0.1 s"


def test_what_a_draft_model_reads_counts(clock: Clock) -> None:
    timer = run(clock, [0.25, 0.1])
    timer.mbu_estimator = cast(MBUEstimator, HalfAtFive())
    alone = timer.stats().mbu
    timer.drafts.draft("model", 2, 0.05, bytes_read=6)
    clock.now += 0.1
    timer.record_token()
    timer.drafts.draft("model", 1, 0.05, bytes_read=3)
    assert timer.stats(2).mbu == alone, "before them"
    assert timer.stats().mbu == pytest.approx(0.5 * 10 / 5 * 1.005 + 6 / 0.2), "what the next token takes is not in it"


def test_drafts_by_source(clock: Clock) -> None:
    timer = run(clock, [0.25, 0.1])
    first, tally = timer.stats(), timer.drafts
    tally.draft("model", 3, 0.5)
    tally.accept("model")
    timer.record_token()
    tally.draft("lookup", 1)
    tally.draft("model", 0, 0.25)
    tally.accept("model")
    timer.record_token()
    timer.record_token()
    second = {"model": DraftStats(3, 2, 0.75), "lookup": DraftStats(1, 0, 0.0)}
    assert (first.drafted, first.accepted, first.tokens_per_step, first.drafts) == (0, 0, 1, {})
    assert timer.stats(3).drafts == {"model": DraftStats(3, 1, 0.5)}, "those of its time"
    stats = timer.stats()
    assert (stats.drafted, stats.accepted, stats.tokens_per_step, stats.drafts) == (4, 2, 2, second)
    assert str(stats).endswith(" · drafts accepted 2 of 4 (model 67%, lookup 0%), 2.0 tokens a step")
    assert RequestTimer(lambda: DEVICES).stats().tokens_per_step is None
    assert asdict(stats)["drafts"]["model"] == {"drafted": 3, "accepted": 2, "seconds": 0.75}


def test_a_prefill_while_it_runs(clock: Clock) -> None:
    timer, seen = RequestTimer(lambda: DEVICES, clock=clock), []
    clock.now += 0.5
    assert timer.live().elapsed_s == pytest.approx(0.5)
    assert (timer.live().prefill_total, timer.live().prefill_eta_s) == (0, None)
    with timer.prefill(10, lambda *at: seen.append(at)) as progress:
        progress(0, 90)
        clock.now += 1
        assert (timer.live().prefill_done, timer.live().prefill_eta_s) == (0, None)
        clock.now += 1
        progress(30, 90)  # 15 tokens a second: 4 s for the other 60
        assert timer.live().prefill_eta_s == pytest.approx(4)
        clock.now += 1
        live = timer.live()
        assert (live.prefill_done, live.prefill_total, live.context_used) == (30, 90, 40)
        assert (live.prefill_eta_s, live.elapsed_s) == (pytest.approx(3), pytest.approx(3.5))
        assert live.stats.prefill_tps == pytest.approx(15)
        clock.now += 60
        assert timer.live().prefill_eta_s == 0  # late, but never negative
        progress(90, 90)
    assert (timer.live().prefill_eta_s, timer.live().context_used) == (0, 100)
    assert seen == [(0, 90), (30, 90), (90, 90)]


def test_the_time_stands_still_when_it_has_ended(clock: Clock) -> None:
    timer = run(clock, [0.25, 0.1])
    clock.now += 1
    assert timer.live().elapsed_s == pytest.approx(3.85)
    timer.end()
    clock.now += 5
    assert timer.live().elapsed_s == pytest.approx(3.85)


def test_the_speed_of_the_last_second(clock: Clock) -> None:
    assert run(clock, [0.1]).live().recent_tps is None
    assert run(clock, [0.1, 0.25]).live().recent_tps == pytest.approx(4)
    assert run(clock, [0.1, 5.0]).live().recent_tps == pytest.approx(0.2)  # two tokens, however long it took
    slow_then_fast = run(clock, [0.1, *[2.0] * 9, *[0.125] * 16]).live()
    assert slow_then_fast.recent_tps == pytest.approx(8)
    assert run(clock, [0.0, 0.0]).live().recent_tps is None


@given(st.lists(st.floats(0, 3), max_size=99))
@settings(deadline=None)
def test_the_last_gaps_between_tokens(gaps: list[float]) -> None:
    live = run(Clock(), [1.0, *gaps]).live()
    assert live.gaps_ms == pytest.approx([1000 * gap for gap in gaps[-64:]], abs=1e-6)
    assert live.stats.generated_tokens == len(gaps) + 1
