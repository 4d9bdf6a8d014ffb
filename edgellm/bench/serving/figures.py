"""From outcomes to figures: percentiles, throughput and goodput."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from edgellm.bench.serving.outcome import Outcome, Status

PERCENTILES = (50, 95, 99)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all values do not exceed (nearest rank); no value is made up."""
    ranked = sorted(values)
    return ranked[max(1, math.ceil(percent / 100 * len(ranked))) - 1]


def percentiles(values: Iterable[float]) -> dict[str, float] | None:
    """The percentiles and the mean, by name; None without values."""
    known = list(values)
    if not known:
        return None
    return {f"p{n}": percentile(known, n) for n in PERCENTILES} | {"mean": sum(known) / len(known)}


def run_figures(outcomes: Sequence[Outcome], slo_ttft: float, slo_itl: float, window_s: float | None) -> dict[str, Any]:
    """The figures of a run; times in milliseconds, but for `seconds`.

    `window_s` is the time over which requests arrived; goodput counts the good requests that arrived in it. Without it
    (a closed loop) it is the time from the first request to the last reply, as it is for throughput.
    """
    completed = [each for each in outcomes if each.status is Status.COMPLETED]
    replies = [each.reply for each in completed if each.reply]
    good = sum(each.meets(slo_ttft, slo_itl) for each in completed)
    counts = Counter(each.status for each in outcomes)
    seconds = max((each.ended_s for each in outcomes), default=0.0) - min((o.arrival_s for o in outcomes), default=0.0)
    tokens_in, tokens_out = sum(each.prompt_tokens for each in replies), sum(each.tokens for each in replies)
    return {
        "requests": len(outcomes),
        **{status.value: counts[status] for status in Status},
        "short": sum(each.reply is not None and each.reply.tokens < each.wanted for each in completed),
        "prompt_tokens": tokens_in,
        "cached_tokens": sum(each.cached_tokens for each in replies),
        "generated_tokens": tokens_out,
        "pieces": sum(len(each.pieces_s) for each in completed),
        "seconds": seconds,
        "prompt_tps": tokens_in / seconds if seconds else 0.0,
        "generated_tps": tokens_out / seconds if seconds else 0.0,
        "ttft_ms": percentiles(1e3 * each.ttft_s for each in completed if each.ttft_s is not None),
        "itl_ms": percentiles(1e3 * gap for each in completed for gap in _gaps(each)),
        "tpot_ms": percentiles(1e3 * each.tpot_s for each in completed if each.tpot_s is not None),
        "latency_ms": percentiles(1e3 * (each.ended_s - each.arrival_s) for each in completed),
        "send_delay_ms": percentiles(1e3 * (each.sent_s - each.arrival_s) for each in outcomes),
        "good": good,
        "attainment": good / len(outcomes) if outcomes else 0.0,
        "goodput": good / (window_s or seconds) if window_s or seconds else 0.0,
        "errors": dict(Counter(each.error for each in outcomes if each.error).most_common(5)),
    }


def _gaps(outcome: Outcome) -> Iterable[float]:
    return (after - before for before, after in pairwise(outcome.pieces_s))
