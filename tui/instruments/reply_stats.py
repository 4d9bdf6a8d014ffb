"""The line of statistics below a reply."""

from collections.abc import Mapping
from typing import Any

from edgellm.fmt import counted
from tui.instruments.numbers import milliseconds, seconds, speed

_ENDINGS = {
    None: "not finished",
    "stop": "ended at a stop text",
    "length": "cut off at the token limit",
    "cancelled": "stopped by you",
    "error": "broken off by an error",
}
_MAX_VALUE = 1e12  # beyond, infinite or not a number at all


def reply_stats_line(stats: Mapping[str, Any], finish_reason: str | None, dropped_tokens: int = 0) -> str:
    """The statistics of a reply, from the fields of `edgellm.generate.stats.Stats`; problems come first.

    The stats may come from another program's file: values that are no numbers are left out.
    """
    itl = stats.get("itl_ms")
    ttft, tps, mbu = (_number(stats, key) for key in ("ttft_s", "decode_tps", "mbu"))
    tokens, cached, prompt = (_number(stats, key) for key in ("generated_tokens", "cached_tokens", "prompt_tokens"))
    estimated = stats.get("estimated") is True  # the server told no number of tokens
    unit = "pieces/s" if estimated else "t/s"
    p95 = _number(itl, "p95") if isinstance(itl, Mapping) else None
    parts = [
        f"did not see {dropped_tokens:,} tokens" if dropped_tokens else "",
        _ENDINGS.get(finish_reason, ""),
        f"TTFT {seconds(ttft)}" if ttft is not None else "",
        f"decode {speed(tps, unit)}" if tps is not None else "",
        "" if tokens is None else counted(int(tokens), "piece") if estimated else f"{tokens:,.0f} generated",
        f"ITL p95 {milliseconds(p95)} ms" if p95 is not None else "",
        f"MBU {mbu:.2f}" if mbu is not None else "",
        f"{cached:,.0f} of {prompt:,.0f} cached" if cached and prompt else "",
        _drafts(stats),
        _guided(stats.get("guided")),
    ]
    return " · ".join(part for part in parts if part)


def _drafts(stats: Mapping[str, Any]) -> str:
    """How many drafts were right."""
    drafted, accepted = (_number(stats, key) for key in ("drafted", "accepted"))
    return f"drafts {accepted / drafted:.0%} of {drafted:,.0f}" if drafted and accepted is not None else ""


def _guided(guided: object) -> str:
    """How far a schema pushed the model from what it would have written."""
    figures = [_number(guided, key) for key in ("mean", "worst")] if isinstance(guided, Mapping) else [None]
    if None in figures:
        return ""
    mean, worst = figures
    return f"guide excluded {mean:.0%}, at most {worst:.0%}"


def _number(stats: Mapping[str, Any], key: str) -> float | None:
    value = stats.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _MAX_VALUE else None
