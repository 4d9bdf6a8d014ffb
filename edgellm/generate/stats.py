"""The figures of a generation: what it cost, and what it does now."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from edgellm.fmt import counted
from edgellm.generate.draft_tally import DraftStats
from edgellm.generate.guided_stats import GuidedStats

GAPS = 64
"""Number of inter-token latencies in `Live.gaps_ms`."""


class Truncation(NamedTuple):
    """What was left out of a conversation: tokens in total, and whole messages, the oldest after the system prompt."""

    tokens: int = 0
    messages: int = 0


@dataclass(frozen=True)
class Stats:
    """The figures of a generation; a speed is None until there is something to divide by.

    `ttft_s` is the time from the request, tokenizing included, to the delivery of the first token. `prefill_tps` is
    computed prompt tokens per second, `decode_tps` tokens after the first per second. `itl_ms` has the 50th and 95th
    percentile of the inter-token latency; it is close to 0 for an accepted draft token, which
    an earlier step computed (see `edgellm.generate.speculative_decoder`). `mbu` is the memory bandwidth utilization of
    decoding, None until the bandwidth was measured. `devices` lists the name, blocks and bytes of each device that
    computed. `guided` is None unless the reply is held to a form. `queued_s` is the part of `ttft_s` before the first
    batch that computes tokens of the prompt: the request waits for others, and for memory; None for a reply of a
    server. `estimated`: a server told no number of tokens, so `generated_tokens` and `decode_tps` count pieces of text,
    each of one or several tokens. `drafted` tokens were computed
    before they were certain, and those `accepted` needed no step of their own: `tokens_per_step` is the mean, None
    before there was a step. `drafts` has both by what proposed them (`edgellm.speculation.drafter.Source`).
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
    guided: GuidedStats | None = None
    queued_s: float | None = 0.0
    estimated: bool = False
    drafted: int = 0
    accepted: int = 0
    tokens_per_step: float | None = None
    drafts: Mapping[str, DraftStats] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"prompt {self.prompt_tokens:,} ({self.cached_tokens:,} cached)"] if self.prompt_tokens else []
        generated = self.generated_tokens
        parts.append(f"generated {counted(generated, 'piece') if self.estimated else f'{generated:,}'}")
        if self.ttft_s is not None:
            parts.append(f"TTFT {self.ttft_s:.3f} s")
        if self.prefill_tps is not None:
            parts.append(f"prefill {self.prefill_tps:,.1f} t/s")
        if self.decode_tps is not None:
            parts.append(f"decode {self.decode_tps:,.1f} {'pieces/s' if self.estimated else 't/s'}")
        if self.mbu is not None:
            parts.append(f"MBU {self.mbu:.2f}")
        if self.guided is not None:
            parts.append(f"guide excluded {self.guided.mean:.0%}, at most {self.guided.worst:.0%}")
        if self.drafted:
            parts.append(self._drafts_text())
        return " · ".join(parts)

    def _drafts_text(self) -> str:
        sources = [(source, each) for source, each in self.drafts.items() if each.drafted]
        shares = [f"{source} {each.accepted / each.drafted:.0%}" for source, each in sources]
        steps = f", {self.tokens_per_step:.1f} tokens a step" if self.tokens_per_step else ""
        return f"drafts accepted {self.accepted:,} of {self.drafted:,} ({', '.join(shares)}){steps}"


@dataclass(frozen=True)
class Live:
    """What a generation does at one moment.

    `elapsed_s` is the time from the request to now, or to the end. `prefill_total` is the number of prompt tokens that
    were not cached, `prefill_done` how many of them are computed; `prefill_eta_s` is None until there is a speed.
    `recent_tps` is the speed over about the last second of tokens, None before two tokens. `gaps_ms` are the last GAPS
    inter-token latencies, oldest first. `context_used` is the number of tokens in the sequence.

    `silent_s` is the time since the last token, or since the request if there is none; 0 behind the end.

    `diverged_at` is the index of the first prompt token that differs from the cached sequence; None if all of that
    sequence was reused. `diverged_text` is the prompt's text around it, on one line.
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
    silent_s: float = 0.0
