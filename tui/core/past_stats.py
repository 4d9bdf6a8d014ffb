"""The figures of a reply that has ended, as they are stored with it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from edgellm.generate.draft_tally import DraftStats
from edgellm.generate.guided_stats import GuidedStats
from edgellm.generate.stats import Live, Stats

_COUNTS = ("prompt_tokens", "cached_tokens", "generated_tokens", "drafted", "accepted")
_MEASURED = ("ttft_s", "prefill_tps", "decode_tps", "itl_ms", "mbu", "tokens_per_step")


def stats_record(stats: Stats, live: Live, ctx: int) -> dict[str, Any]:
    """The figures to store of a reply by a model with a context of `ctx` tokens."""
    return {**asdict(stats), "context_used": live.context_used, "ctx": ctx}


def context_used(stats: Mapping[str, Any]) -> int:
    """The tokens in the context at the end of a reply.

    Records of earlier versions have no `context_used`: prompt and reply are then counted, without the tokens that had
    left a sliding window.
    """
    used = stats.get("context_used")
    return int(stats.get("prompt_tokens", 0) + stats.get("generated_tokens", 0) if used is None else used)


def past_live(stats: Mapping[str, Any], context_used: int) -> Live:
    """The figures as the instruments show them, with None for the figures of single moments, which are not stored."""
    counts: dict[str, Any] = {name: stats.get(name, 0) for name in _COUNTS}
    measured: dict[str, Any] = {name: stats.get(name) for name in _MEASURED}
    guided = GuidedStats(**found) if (found := stats.get("guided")) else None
    drafts = {source: DraftStats(**each) for source, each in stats.get("drafts", {}).items()}
    devices, estimated = list(stats.get("devices", ())), stats.get("estimated") is True
    known = Stats(**counts, **measured, devices=devices, guided=guided, estimated=estimated, drafts=drafts)
    read = max(0, known.prompt_tokens - known.cached_tokens)
    return Live(0.0, read, read, None, None, (), context_used, known, None, "")
