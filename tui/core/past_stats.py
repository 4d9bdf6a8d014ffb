"""The figures of a reply that has ended, as they are kept with it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from edgellm.generate.stats import Live, Stats

_COUNTS = ("prompt_tokens", "cached_tokens", "generated_tokens")


def stats_record(stats: Stats, live: Live, ctx: int) -> dict[str, Any]:
    """What is kept of a reply by a model with a context of `ctx` tokens."""
    return {**asdict(stats), "context_used": live.context_used, "ctx": ctx}


def context_used(stats: Mapping[str, Any]) -> int:
    """The tokens in the context at the end of a reply; what earlier versions kept lacks those that slid out of it."""
    known = stats.get("context_used")
    return int(stats.get("prompt_tokens", 0) + stats.get("generated_tokens", 0) if known is None else known)


def past_live(stats: Mapping[str, Any], context_used: int) -> Live:
    """The figures as instruments show them; those of single moments are not known any more."""
    names = ("ttft_s", "prefill_tps", "decode_tps", "itl_ms", "mbu")
    counts: dict[str, Any] = {name: stats.get(name, 0) for name in _COUNTS}
    measured: dict[str, Any] = {name: stats.get(name) for name in names}
    known = Stats(**counts, **measured, devices=list(stats.get("devices", ())))
    read = max(0, known.prompt_tokens - known.cached_tokens)
    return Live(0.0, read, read, None, None, (), context_used, known, None, "")
