"""The timer of a request: events are counted and timed where they happen."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from edgellm.generate.draft_tally import DraftStats, DraftTally
from edgellm.generate.guided_stats import GuidedTally
from edgellm.generate.stats import GAPS, Live, Stats, Truncation

if TYPE_CHECKING:
    from edgellm.perf.mbu import MBUEstimator  # imports numpy

PrefillProgress = Callable[[int, int], None]
"""Called with (tokens computed, tokens to compute) at the beginning of a prompt and after each batch of it."""

_RECENT_S = 1.0


class _Prefill(NamedTuple):
    """Progress of a prefill, `seconds` after it began; `done` and `total` count tokens."""

    done: int = 0
    total: int = 0
    began: float = 0.0
    seconds: float = 0.0

    def eta_s(self, now: float) -> float | None:
        """Seconds from `now` to the end of the prefill at its speed so far; None without a speed."""
        if not self.done or not self.seconds:
            return None
        end = self.began + self.seconds * self.total / self.done
        return max(0.0, end - now) if self.done < self.total else 0.0


@dataclass
class RequestTimer:
    """The timer of one generation; it starts when it is made, with the request.

    `devices` gives the current devices: when a GPU fails during a reply, its blocks move to the CPU. Without an
    `mbu_estimator` the MBU is None. `drafts` counts the draft tokens so far.

    One thread records, other threads may read meanwhile: values that belong together are replaced in one step.
    """

    devices: Callable[[], list[dict[str, Any]]]
    mbu_estimator: "MBUEstimator | None" = None
    clock: Callable[[], float] = perf_counter
    prompt_tokens: int = 0
    cached_tokens: int = 0
    context_used: int = 0
    diverged_at: int | None = None
    truncation: Truncation = field(default_factory=Truncation)
    guided: GuidedTally = field(default_factory=GuidedTally)
    drafts: DraftTally = field(default_factory=DraftTally)
    _prefill: _Prefill = field(default_factory=_Prefill)
    _computing: float | None = None
    _ended: float | None = None
    _delivered: list[float] = field(default_factory=list)
    _drafts_before: list[Mapping[str, DraftStats]] = field(default_factory=list)
    _draft_bytes_before: list[int] = field(default_factory=list)
    _percentiles: list[dict[str, float] | None] = field(default_factory=list)
    _sorted_gaps: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.started = self.clock()

    @contextmanager
    def prefill(self, cached: int, progress: PrefillProgress | None = None) -> Iterator[PrefillProgress]:
        """Time the prefill of a prompt after `cached` tokens. Yields the callback to report its progress to."""
        began = self.clock()
        self._prefill = _Prefill(began=began)

        def advance(done: int, total: int) -> None:
            self._prefill = _Prefill(done, total, began, self.clock() - began)
            self.context_used = cached + done
            if progress:
                progress(done, total)

        try:
            yield advance
        finally:
            self._prefill = self._prefill._replace(seconds=self.clock() - began)

    def record_computing(self) -> None:
        """Record that the first batch begins now, unless it has."""
        if self._computing is None:
            self._computing = self.clock()

    def record_token(self, chosen_at: float | None = None) -> int:
        """Record that a token is delivered now, or was chosen earlier; returns the number of tokens so far."""
        now = self.clock() if chosen_at is None else chosen_at
        if self._delivered:
            insort(self._sorted_gaps, 1000 * (now - self._delivered[-1]))
        # Stored for every token, so that reading the figures of a token costs the same at any time.
        gaps = self._sorted_gaps
        self._percentiles.append({"p50": _quantile(gaps, 0.5), "p95": _quantile(gaps, 0.95)} if gaps else None)
        self._drafts_before.append(self.drafts.by_source)
        self._draft_bytes_before.append(self.drafts.bytes_read)
        self._delivered.append(now)
        return len(self._delivered)

    def end(self) -> None:
        """Record that the generation ends now."""
        self._ended, devices = self.clock(), self.devices()
        self.devices = lambda: devices

    def live(self, diverged_text: str = "") -> Live:
        """The figures of this moment."""
        now = self.clock() if self._ended is None else self._ended
        recent = self._delivered[-GAPS - 1 :]
        return Live(
            elapsed_s=now - self.started,
            prefill_done=self._prefill.done,
            prefill_total=self._prefill.total,
            prefill_eta_s=self._prefill.eta_s(now),
            recent_tps=self._recent_tps(),
            gaps_ms=tuple(1000 * (later - earlier) for earlier, later in pairwise(recent)),
            context_used=self.context_used,
            stats=self.stats(),
            diverged_at=self.diverged_at,
            diverged_text=diverged_text,
            silent_s=now - (recent[-1] if recent else self.started) if self._ended is None else 0.0,
        )

    def _recent_tps(self) -> float | None:
        n = len(self._delivered)
        if n < 2:
            return None
        last = self._delivered[n - 1]
        first = min(n - 2, bisect_left(self._delivered, last - _RECENT_S, 0, n))
        span = last - self._delivered[first]
        return (n - 1 - first) / span if span else None

    def stats(self, count: int | None = None) -> Stats:
        """The figures after the first `count` tokens, or after all."""
        n, prefill = len(self._delivered) if count is None else count, self._prefill
        drafts = self._drafts_before[n - 1] if n else {}
        accepted = sum(each.accepted for each in drafts.values())
        steps = n - 1 - accepted  # an accepted draft is computed in the step of an earlier token
        first, last = (self._delivered[0], self._delivered[n - 1]) if n else (self.started, self.started)
        span = last - first
        return Stats(
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            generated_tokens=n,
            queued_s=self._queued_s(),
            ttft_s=first - self.started if n else None,
            prefill_tps=prefill.done / prefill.seconds if prefill.done and prefill.seconds else None,
            decode_tps=(n - 1) / span if span else None,
            itl_ms=self._percentiles[n - 1] if n else None,
            mbu=self._mbu(n, steps, span),
            devices=self.devices(),
            guided=self.guided.stats(n),
            drafted=sum(each.drafted for each in drafts.values()),
            accepted=accepted,
            tokens_per_step=(n - 1) / steps if steps > 0 else None,
            drafts=drafts,
        )

    def _queued_s(self) -> float:
        if self._computing is not None:
            return self._computing - self.started
        return (self.clock() if self._ended is None else self._ended) - self.started

    def _mbu(self, n: int, steps: int, span: float) -> float | None:
        """The MBU of `n` tokens, the last `span` seconds after the first, which were computed in `steps` steps.

        Token i + 1 is computed after prompt_tokens + i - 1 tokens, for i = 1 … n - 1.
        """
        if self.mbu_estimator is None or not span:
            return None
        draft_bytes = self._draft_bytes_before[n - 1] / span
        return self.mbu_estimator.mbu(steps / span, self.prompt_tokens + n / 2 - 1, draft_bytes)


def _quantile(ordered: list[float], share: float) -> float:
    """The quantile of a sorted list, interpolated linearly."""
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
