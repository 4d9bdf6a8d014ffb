"""The clock of a generation: what happens is counted and timed where it happens."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from edgellm.generate.stats import GAPS, Live, Stats

if TYPE_CHECKING:
    from edgellm.perf.mbu import Gauge  # brings numpy

Progress = Callable[[int, int], None]
"""Called with (tokens computed, tokens to compute)."""

_RECENT_S = 1.0


class Dropped(NamedTuple):
    """What was left out of a conversation: tokens in all, and messages, the first ones behind the system prompt."""

    tokens: int = 0
    messages: int = 0


class _Prefill(NamedTuple):
    """How far the computation of a prompt is, `seconds` after it began."""

    done: int = 0
    total: int = 0
    began: float = 0.0
    seconds: float = 0.0

    def eta_s(self, now: float) -> float | None:
        """Seconds from now until the rest is done at the speed so far; None without a speed."""
        if not self.done or not self.seconds:
            return None
        end = self.began + self.seconds * self.total / self.done
        return max(0.0, end - now) if self.done < self.total else 0.0


@dataclass
class Meter:
    """The clock of one generation, started with the request; without a `gauge` it tells no MBU.

    `devices` gives what computes now: a GPU that fails in mid-reply leaves its part to the CPU. `guessed` counts the
    tokens that a step before theirs computed.

    One thread records, any other may read meanwhile: what belongs together is replaced in one step.
    """

    devices: Callable[[], list[dict[str, Any]]]
    gauge: "Gauge | None" = None
    clock: Callable[[], float] = perf_counter
    prompt_tokens: int = 0
    cached_tokens: int = 0
    context_used: int = 0
    guessed: int = 0
    diverged_at: int | None = None
    dropped: Dropped = field(default_factory=Dropped)
    _prefill: _Prefill = field(default_factory=_Prefill)
    _ended: float | None = None
    _delivered: list[float] = field(default_factory=list)
    _guessed: list[int] = field(default_factory=list)
    _gaps: list[float] = field(default_factory=list)
    _percentiles: list[dict[str, float] | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.started = self.clock()

    @contextmanager
    def prefill(self, cached: int, progress: Progress | None = None) -> Iterator[Progress]:
        """Time the computation of a prompt behind `cached` tokens; gives the `progress` that is to be called for it."""
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

    def deliver(self) -> int:
        """A token is handed over now; returns how many there are."""
        now = self.clock()
        if self._delivered:
            insort(self._gaps, 1000 * (now - self._delivered[-1]))
        # Noted for every token, so that its figures cost the same whenever and however often they are asked for.
        self._percentiles.append({"p50": _at(self._gaps, 0.5), "p95": _at(self._gaps, 0.95)} if self._gaps else None)
        self._guessed.append(self.guessed)
        self._delivered.append(now)
        return len(self._delivered)

    def end(self) -> None:
        """The generation ends now."""
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
        first, last = (self._delivered[0], self._delivered[n - 1]) if n else (self.started, self.started)
        span = last - first
        return Stats(
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            generated_tokens=n,
            ttft_s=first - self.started if n else None,
            prefill_tps=prefill.done / prefill.seconds if prefill.done and prefill.seconds else None,
            decode_tps=(n - 1) / span if span else None,
            itl_ms=self._percentiles[n - 1] if n else None,
            mbu=self._mbu(n, span),
            devices=self.devices(),
        )

    def _mbu(self, n: int, span: float) -> float | None:
        """Token i + 1 was computed with prompt_tokens + i - 1 tokens before it, for i = 1 … n - 1.

        Those that had been guessed came with the step of an earlier one.
        """
        if self.gauge is None or not span:
            return None
        steps = n - 1 - self._guessed[n - 1]
        return self.gauge.mbu(steps / span, self.prompt_tokens + n / 2 - 1)


def _at(ordered: list[float], share: float) -> float:
    """The value at a share of an ordered list, between two neighbours in proportion."""
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
