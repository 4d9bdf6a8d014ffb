"""Figures of a server in Prometheus' text format. (https://prometheus.io/docs/instrumenting/exposition_formats/)"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from edgellm.engine.kv_stats import KVStats
from edgellm.generate.prefix_stats import PrefixStats
from edgellm.server.events import Event, ReplyEnd, ReplyPart

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_TTFT_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_ITL_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1)
_COUNTERS = {
    "prompt_tokens": "Tokens of prompts.",
    "cached_prompt_tokens": "Tokens of prompts that the prefix cache held, so that they were not computed.",
    "prefix_hits": "Replies with tokens of their prompts that the prefix cache held.",
    "generated_tokens": "Tokens of replies.",
    "replies": "Replies that ended by themselves.",
}
_DRAFT_COUNTERS = {
    "drafted_tokens": "Tokens that were computed before they were certain.",
    "accepted_tokens": "Drafted tokens that replies have.",
}
"""Counters by what proposed the tokens."""


class Gauge(NamedTuple):
    """A figure of this moment: its values by labels, which are empty for one of the whole server."""

    name: str
    help: str
    values: Mapping[str, float]


def model_gauges(models: Mapping[str, tuple[KVStats, PrefixStats]]) -> Iterator[Gauge]:
    """The figures of the open models, by name."""
    pages = {
        f'{_label(name)},state="{state}"': count
        for name, (kv, _) in models.items()
        for state, count in (
            ("used", kv.used_pages),
            ("cached", kv.cached_pages),
            ("free", kv.pages - kv.used_pages - kv.cached_pages),
        )
    }
    yield Gauge("kv_pages", "KV pages that requests use, that the prefix cache alone holds, and free ones.", pages)
    for name, help, field in (
        ("kv_page_tokens", "Tokens in a KV page.", "page_tokens"),
        ("kv_bytes", "Memory of keys and values, and of recurrent states.", "bytes"),
        ("kv_budget_bytes", "The most memory that these may take.", "budget_bytes"),
    ):
        yield Gauge(name, help, {_label(model): getattr(kv, field) for model, (kv, _) in models.items()})
    ratios = {_label(name): prefix.hit_ratio for name, (_, prefix) in models.items()}
    yield Gauge("prefix_hit_ratio", "The share of the tokens of prompts that the prefix cache held.", ratios)


class Histogram:
    """Counts of values in buckets with upper bounds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """The lines of a model: buckets, each with those below it, then sum and count."""
        total = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self._sum:g}"
        yield f"{name}_count{{{labels}}} {total}"


class Metrics:
    """The figures of all requests so far, by model. Only the thread of the event loop may use it."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {name: defaultdict(int) for name in _COUNTERS}
        self._ttft: dict[str, Histogram] = defaultdict(lambda: Histogram(_TTFT_S))
        self._itl: dict[str, Histogram] = defaultdict(lambda: Histogram(_ITL_S))
        self._queue: dict[str, Histogram] = defaultdict(lambda: Histogram(_TTFT_S))
        self._drafts: dict[str, dict[tuple[str, str], int]] = {name: defaultdict(int) for name in _DRAFT_COUNTERS}
        self._statuses: dict[int, int] = defaultdict(int)

    def answered(self, status: int) -> None:
        """Count an answer."""
        self._statuses[status] += 1

    def record(self, model: str, event: Event, waited_s: float) -> None:
        """Count what came of a request, which waited so long until its work began."""
        if isinstance(event, ReplyPart) and event.gap_s is not None:
            self._itl[model].add(event.gap_s)
        if isinstance(event, ReplyEnd):
            stats = event.stats
            self._counts["prompt_tokens"][model] += stats.prompt_tokens
            self._counts["cached_prompt_tokens"][model] += stats.cached_tokens
            self._counts["prefix_hits"][model] += stats.cached_tokens > 0
            self._queue[model].add(waited_s + (stats.queued_s or 0.0))
            self._counts["generated_tokens"][model] += stats.generated_tokens
            self._counts["replies"][model] += 1
            for source, drafts in stats.drafts.items():
                self._drafts["drafted_tokens"][model, source] += drafts.drafted
                self._drafts["accepted_tokens"][model, source] += drafts.accepted
            if stats.ttft_s is not None:
                self._ttft[model].add(waited_s + stats.ttft_s)

    def text(self, gauges: Iterable[Gauge]) -> str:
        """All figures."""
        return "".join(f"{line}\n" for line in self._lines(gauges))

    def _lines(self, gauges: Iterable[Gauge]) -> Iterator[str]:
        for gauge in gauges:
            yield from _head(f"edgellm_{gauge.name}", gauge.help, "gauge")
            for labels, value in gauge.values.items():
                yield f"edgellm_{gauge.name}{f'{{{labels}}}' if labels else ''} {value!r}"
        yield from _head("edgellm_responses_total", "Answers, by HTTP status.", "counter")
        for status, count in sorted(self._statuses.items()):
            yield f'edgellm_responses_total{{status="{status}"}} {count}'
        for name, help in _COUNTERS.items():
            yield from _head(f"edgellm_{name}_total", help, "counter")
            for model, count in self._counts[name].items():
                yield f"edgellm_{name}_total{{{_label(model)}}} {count}"
        for name, help in _DRAFT_COUNTERS.items():
            yield from _head(f"edgellm_{name}_total", help, "counter")
            for (model, source), count in self._drafts[name].items():
                yield f'edgellm_{name}_total{{{_label(model)},source="{source}"}} {count}'
        yield from _histograms("ttft_seconds", "Time from arrival to the first token.", self._ttft)
        yield from _histograms("itl_seconds", "Inter-token latency.", self._itl)
        yield from _histograms("queue_seconds", "Time from arrival to the first computation.", self._queue)


def _histograms(name: str, help: str, found: Mapping[str, Histogram]) -> Iterator[str]:
    yield from _head(f"edgellm_{name}", help, "histogram")
    for model, histogram in found.items():
        yield from histogram.lines(f"edgellm_{name}", _label(model))


def _head(name: str, help: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _label(model: str) -> str:
    escaped = model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'model="{escaped}"'
