"""What a generation cost: counted and timed where it happens."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import quantiles
from time import perf_counter
from typing import Any


@dataclass(frozen=True)
class Stats:
    """The figures of a generation; None where there is nothing to divide by yet.

    `ttft_s` runs from the request to the delivery of the first token, tokenizing included. `prefill_tps` counts
    uncached prompt tokens per second, `decode_tps` tokens after the first. `itl_ms` are the 50th and 95th
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
        return " · ".join(parts)


@dataclass
class Meter:
    """The clock of one generation, started with the request."""

    devices: list[dict[str, Any]]
    started: float = field(default_factory=perf_counter)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prefill_s: float = 0.0
    delivered: list[float] = field(default_factory=list)

    @contextmanager
    def prefill(self) -> Iterator[None]:
        """Time the computation of the prompt."""
        started = perf_counter()
        yield
        self.prefill_s = perf_counter() - started

    def deliver(self) -> int:
        """A token is handed over now; returns how many there are."""
        self.delivered.append(perf_counter())
        return len(self.delivered)

    def stats(self, count: int | None = None) -> Stats:
        """The figures after the first `count` tokens, or after all."""
        times = self.delivered[:count]
        gaps = [1000 * (after - before) for before, after in pairwise(times)]
        span = times[-1] - times[0] if times else 0.0
        uncached = self.prompt_tokens - self.cached_tokens
        return Stats(
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            generated_tokens=len(times),
            ttft_s=times[0] - self.started if times else None,
            prefill_tps=uncached / self.prefill_s if self.prefill_s else None,
            decode_tps=len(gaps) / span if span else None,
            itl_ms=_percentiles(gaps),
            mbu=None,
            devices=self.devices,
        )


def _percentiles(gaps: list[float]) -> dict[str, float] | None:
    if not gaps:
        return None
    cuts = quantiles(gaps, n=20, method="inclusive") if len(gaps) > 1 else gaps * 19
    return {"p50": cuts[9], "p95": cuts[18]}
