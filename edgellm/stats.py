"""What a generation cost: counted and timed where it happens."""

from bisect import insort
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from edgellm.gauge import Gauge


@dataclass(frozen=True)
class Stats:
    """The figures of a generation; None where there is nothing to divide by yet.

    `ttft_s` runs from the request to the delivery of the first token, tokenizing included. `prefill_tps` counts
    prompt tokens computed per second, `decode_tps` tokens after the first. `itl_ms` are the 50th and 95th
    percentile of the time between tokens. `mbu` is the share of the memory bandwidth that decoding used: None
    until that bandwidth has been measured. `devices` lists name, blocks and bytes of what computed.
    """

    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    ttft_s: float | None
    prefill_tps: float | None
    decode_tps: float | None
    itl_ms: dict[str, float] | None
    mbu: float | None
    devices: list[dict[str, Any]]

    def __str__(self) -> str:
        parts = [f"prompt {self.prompt_tokens:,} ({self.cached_tokens:,} cached)"]
        parts.append(f"generated {self.generated_tokens:,}")
        if self.ttft_s is not None:
            parts.append(f"TTFT {self.ttft_s:.3f} s")
        if self.prefill_tps is not None:
            parts.append(f"prefill {self.prefill_tps:,.1f} t/s")
        if self.decode_tps is not None:
            parts.append(f"decode {self.decode_tps:,.1f} t/s")
        if self.mbu is not None:
            parts.append(f"MBU {self.mbu:.2f}")
        return " · ".join(parts)


@dataclass
class Meter:
    """The clock of one generation, started with the request; without a `gauge` it tells no MBU."""

    devices: list[dict[str, Any]]
    started: float = field(default_factory=perf_counter)
    gauge: Gauge | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prefill_s: float = 0.0
    prefilled: int = 0
    _delivered: list[float] = field(default_factory=list)
    _gaps: list[float] = field(default_factory=list)
    _percentiles: list[dict[str, float] | None] = field(default_factory=list)

    @contextmanager
    def prefill(self, sequence: Sized) -> Iterator[None]:
        """Time the computation of the prompt, whose tokens come into `sequence`: all, or those before it is stopped."""
        started, cached = perf_counter(), len(sequence)
        try:
            yield
        finally:
            self.prefill_s = perf_counter() - started
            self.prefilled = len(sequence) - cached

    def deliver(self) -> int:
        """A token is handed over now; returns how many there are."""
        now = perf_counter()
        if self._delivered:
            insort(self._gaps, 1000 * (now - self._delivered[-1]))
        # Noted for every token, so that its figures cost the same whenever and however often they are asked for.
        self._percentiles.append({"p50": _at(self._gaps, 0.5), "p95": _at(self._gaps, 0.95)} if self._gaps else None)
        self._delivered.append(now)
        return len(self._delivered)

    def stats(self, count: int | None = None) -> Stats:
        """The figures after the first `count` tokens, or after all."""
        n = len(self._delivered) if count is None else count
        first, last = (self._delivered[0], self._delivered[n - 1]) if n else (self.started, self.started)
        decode_tps = (n - 1) / (last - first) if last > first else None
        return Stats(
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            generated_tokens=n,
            ttft_s=first - self.started if n else None,
            prefill_tps=self.prefilled / self.prefill_s if self.prefilled and self.prefill_s else None,
            decode_tps=decode_tps,
            itl_ms=self._percentiles[n - 1] if n else None,
            mbu=self._mbu(n, decode_tps),
            devices=self.devices,
        )

    def _mbu(self, n: int, decode_tps: float | None) -> float | None:
        """Token i + 1 was computed with prompt_tokens + i - 1 tokens before it, for i = 1 … n - 1."""
        if self.gauge is None or decode_tps is None:
            return None
        return self.gauge.mbu(decode_tps, self.prompt_tokens + n / 2 - 1)


def _at(ordered: list[float], share: float) -> float:
    """The value at a share of an ordered list, between two neighbours in proportion."""
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
