"""The figures of a generation: what it cost, and what it is doing now."""

from dataclasses import dataclass
from typing import Any

GAPS = 64
"""Times between tokens that `Live` shows."""


@dataclass(frozen=True)
class Stats:
    """The figures of a generation; None where there is nothing to divide by yet.

    `ttft_s` runs from the request to the delivery of the first token, tokenizing included. `prefill_tps` counts
    prompt tokens computed per second, `decode_tps` tokens after the first. `itl_ms` are the 50th and 95th
    percentile of the time between tokens: nearly none before one that was guessed (see `edgellm.generate.speculation`), as it
    came with the step of an earlier one. `mbu` is the share of the memory bandwidth that decoding used: None
    until that bandwidth has been measured. `devices` lists name, blocks and bytes of what computed last.
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


@dataclass(frozen=True)
class Live:
    """What a generation is doing at one moment.

    `elapsed_s` runs from the request to now, or to its end. Of `prefill_total` prompt tokens that were not cached
    `prefill_done` are computed; `prefill_eta_s` is None until there is a speed. `recent_tps` is the speed over about
    the last second of tokens, None before there are two. `gaps_ms` are the last GAPS times between tokens, oldest
    first. `context_used` is how many tokens the sequence holds now.

    `diverged_at` is the index of the first prompt token that the cache did not have though it held more; None where
    reuse did not stop before the end of what was cached. `diverged_text` is the prompt around that place, on one line.
    """

    elapsed_s: float
    prefill_done: int
    prefill_total: int
    prefill_eta_s: float | None
    recent_tps: float | None
    gaps_ms: tuple[float, ...]
    context_used: int
    stats: Stats
    diverged_at: int | None
    diverged_text: str
