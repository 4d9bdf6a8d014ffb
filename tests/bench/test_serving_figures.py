"""Benchmarks of serving: percentiles, goodput, the bend, costs and ratios, by hand and by properties."""

import random
from typing import Any

import pytest

from edgellm.bench.serving.bend import Bend, bend_of, search_bend
from edgellm.bench.serving.comparison import compare
from edgellm.bench.serving.cost import Prices, cost_figures
from edgellm.bench.serving.figures import percentile, percentiles, run_figures
from edgellm.bench.serving.outcome import Outcome, ReplyCounts, Status


def reply(arrival: float, pieces: tuple[float, ...], tokens: int, sent: float | None = None) -> Outcome:
    """A complete reply to a prompt of 10 tokens, of which 4 were cached; 8 tokens were wanted."""
    sent = arrival if sent is None else sent
    return Outcome(Status.COMPLETED, arrival, sent, pieces[-1] + 0.5, pieces, 8, ReplyCounts(10, 4, tokens))


def test_percentiles_are_values_by_nearest_rank() -> None:
    values = [15.0, 20, 35, 40, 50]
    assert [percentile(values, p) for p in (5, 30, 40, 50, 100)] == [15, 20, 20, 35, 50]
    assert percentile([7.0], 99) == 7
    assert percentiles(float(n) for n in range(100, 0, -1)) == {"p50": 50, "p95": 95, "p99": 99, "mean": 50.5}
    assert percentiles([]) is None


def test_at_least_the_share_of_all_values_is_not_above_a_percentile() -> None:
    source = random.Random(1)
    for n in range(1, 60):
        values = [source.random() for _ in range(n)]
        for percent in (50, 95, 99):
            found = percentile(values, percent)
            assert sum(each <= found for each in values) >= percent / 100 * n > sum(each < found for each in values)


def test_latency_counts_from_the_intended_arrival() -> None:
    late = reply(1.0, (4.0, 5.0), 2, sent=3.0)
    assert late.ttft_s == 3.0  # 1 s after it was sent
    found = run_figures([late], slo_ttft=2.5, slo_itl=9, window_s=None)
    assert (found["ttft_ms"]["p50"], found["latency_ms"]["p50"], found["send_delay_ms"]["p50"]) == (3000, 4500, 2000)
    assert found["good"] == 0


def test_the_time_per_token_divides_by_tokens_not_by_pieces() -> None:
    four_in_two_pieces = reply(0.0, (1.0, 2.5), 4)
    assert four_in_two_pieces.tpot_s == 0.5
    assert reply(0.0, (1.0,), 1).tpot_s == 0
    found = run_figures([four_in_two_pieces], 2, 1, None)
    assert (found["itl_ms"]["p50"], found["tpot_ms"]["p50"], found["pieces"]) == (1500, 500, 2)


def test_figures_by_hand() -> None:
    outcomes = [
        reply(0.0, (1.0, 1.1, 1.3), 3),  # TTFT 1.0 s, TPOT 150 ms
        reply(1.0, (3.0, 3.4, 3.8), 8),  # TTFT 2.0 s, TPOT 114 ms
        reply(2.0, (2.5, 3.5, 4.5), 3),  # TTFT 0.5 s, TPOT 1 s
        Outcome(Status.REFUSED, 3.0, 3.0, 3.1, (), 8, error="full"),
        Outcome(Status.UNFINISHED, 4.0, 4.0, 8.0, (5.0,), 8),
        Outcome(Status.FAILED, 4.0, 4.0, 4.5, (), 8, error="broken"),
    ]
    found = run_figures(outcomes, slo_ttft=1.5, slo_itl=0.2, window_s=5.0)
    counts = {"requests": 6, "completed": 3, "refused": 1, "failed": 1, "unfinished": 1, "short": 2, "good": 1}
    assert {name: found[name] for name in counts} == counts
    assert (found["attainment"], found["goodput"]) == (1 / 6, 1 / 5)
    assert (found["prompt_tokens"], found["cached_tokens"], found["generated_tokens"]) == (30, 12, 14)
    assert (found["seconds"], found["generated_tps"], found["prompt_tps"]) == (8, 14 / 8, 30 / 8)
    assert found["itl_ms"]["p50"] == pytest.approx(400)  # of 100, 200, 400, 400, 1000, 1000
    assert found["errors"] == {"full": 1, "broken": 1}
    assert run_figures(outcomes, 2.0, 0.2, 5.0)["good"] == 2
    assert run_figures(outcomes, 2.0, 1.0, None)["goodput"] == 3 / 8  # a closed loop: of the whole time


def test_a_run_in_which_nothing_was_completed_has_no_latencies() -> None:
    found = run_figures([Outcome(Status.FAILED, 1.0, 1.0, 1.0, (), 8, error="x")], 1, 1, None)
    assert [found[name] for name in ("ttft_ms", "itl_ms", "goodput", "attainment")] == [None, None, 0, 0]


def test_the_bend_is_before_the_first_rate_that_fails() -> None:
    assert bend_of([(4, 0.89), (1, 1.0), (2, 0.9), (8, 1.0)]) == Bend(2, 4)
    assert bend_of([(1, 0.5), (2, 0.9)]) == Bend(None, 1)
    assert bend_of([(1, 1.0), (2, 0.95)]) == Bend(2, None)
    assert bend_of([]) == Bend(None, None)


@pytest.mark.parametrize("first", [0.03, 1.0, 7.7, 90.0])
@pytest.mark.parametrize("limit", [0.5, 3.3, 42.0])
def test_the_search_encloses_the_bend(first: float, limit: float) -> None:
    measured = list[float]()

    def holds(rate: float) -> bool:
        measured.append(rate)
        return rate <= limit

    search_bend(holds, first, 0.0, 1000)
    low, high = bend_of((rate, float(rate <= limit)) for rate in measured)
    if 1 / 64 < limit / first < 64:  # 12 rates reach no further
        assert low is not None
        assert high is not None
        assert low <= limit < high < 1.2 * low
    assert len(measured) == len(set(measured)) <= 12


def test_the_search_ends_at_the_highest_rate() -> None:
    measured = list[float]()

    def holds(rate: float) -> bool:
        measured.append(rate)
        return True

    search_bend(holds, 300, 1, 1000)
    assert measured == [300, 600, 1000]


def test_the_search_ends_at_the_lowest_rate() -> None:
    measured = list[float]()

    def holds(rate: float) -> bool:
        measured.append(rate)
        return False

    search_bend(holds, 5, 2, 1000)
    assert measured == [5, 2.5, 2]
    measured.clear()
    search_bend(holds, 0.1, 2, 1000)
    assert measured == [2]


def test_costs_by_hand() -> None:
    found = cost_figures(1800, 2_000_000, 7.2e6, Prices(hour=3.0, kwh=0.25))
    assert found == {"joules": 7.2e6, "tokens_per_joule": 2 / 7.2, "price_per_million": (1.5 + 0.5) / 2}
    assert cost_figures(1800, 500_000, None, Prices(hour=3.0))["price_per_million"] == 3.0
    assert cost_figures(1800, 500_000, None, Prices())["price_per_million"] is None
    assert cost_figures(1800, 0, 5.0, Prices(hour=1.0)) == {
        "joules": 5.0,
        "tokens_per_joule": None,
        "price_per_million": None,
    }


def test_ratios_are_above_1_where_the_first_is_better() -> None:
    def run(target: str, number: int, tps: float, ttft: float, **more: Any) -> dict[str, Any]:
        figures = {"generated_tps": tps, "goodput": 1.0, "ttft_ms": {"p95": ttft}, "itl_ms": None}
        return {"target": target, "round": number, "clients": 8, "rate": None, "complete": True, **figures, **more}

    runs = [run("a", 0, 30, 100), run("b", 0, 10, 200), run("b", 1, 12, 150), run("a", 1, 24, 100)]
    (found,) = compare([*runs, run("a", 2, 1, 1), run("b", 2, 1, 1, complete=False)], "a", "b")
    assert found["rounds"] == 2
    speed, ttft = found["generated_tps"], found["ttft_p95"]
    assert speed["values"] == {"a": [30, 24], "b": [10, 12]}
    assert (speed["min"], speed["max"], speed["median"]) == (2, 3, pytest.approx(27 / 11))
    assert (ttft["min"], ttft["max"], ttft["median"]) == (1.5, 2, 1.75)
    assert "itl_p95" not in found
    assert found["goodput"]["median"] == 1
    (found,) = compare([run("a", 0, 30, 1), run("b", 0, 0, 1)], "a", "b")
    assert found["generated_tps"] == {"values": {"a": [30], "b": [0]}, "median": None, "min": None, "max": None}
    assert compare([run("a", 0, 30, 1)], "a", "b") == []
