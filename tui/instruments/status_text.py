"""The text of the status line: its segments, and their priority in each phase."""

from collections.abc import Sequence

from edgellm.fmt import printable, size
from edgellm.generate.stats import Live
from tui.core.activity import Activity, Phase
from tui.core.display_names import display_name
from tui.core.memory import Memory
from tui.instruments.bars import bar, level, share, sparkline
from tui.instruments.metric_values import POLICIES, prompt_read, state, ttft
from tui.instruments.numbers import Words, milliseconds, part_of, ratio, remaining, speed
from tui.instruments.status_layout import SegmentForms, fit_segments, join

_QUIET = "$foreground-muted"
_SILENT_S = 3.0
"""Seconds without a token, from which on the status line says so."""

_LEFT = ("phase", "loading", "ttft", "progress", "left", "silent", "speed", "spark", "mean", "itl", "mbu", "reused")
_RIGHT = ("threads", "gpu", "memory", "model", "uses", "dropped", "context")
_FULL = "context context dropped"
_REST = "reused memory gpu threads"
_ORDER = {
    Phase.CLOSED: "phase uses memory",
    Phase.LOADING: "phase loading model uses loading model memory threads",
    Phase.READY: f"phase context uses dropped model dropped mean {_FULL} ttft itl mbu model spark {_REST}",
    Phase.PREFILL: f"phase progress left ttft context uses dropped progress dropped {_FULL} model model {_REST}",
    Phase.DECODE: "phase silent speed context uses dropped ttft dropped "
    f"{_FULL} spark itl mbu model mean model spark {_REST}",
}
"""The priority of segments in each phase, as the `order` of `fit_segments`."""


def status_text(activity: Activity, memory: Memory | None, width: int) -> Words:
    """The status line, exactly `width` columns wide if any segment fits."""
    chosen = fit_segments(_forms(activity, memory), _ORDER[activity.phase].split(), width)
    return join(chosen, _LEFT, _RIGHT, width)


def _forms(activity: Activity, memory: Memory | None) -> SegmentForms:
    now = state(activity)
    forms: dict[str, Sequence[Words]] = {"phase": [((now.text.ljust(9), now.style),)]}
    forms |= _of_model(activity)
    if activity.live is not None:
        forms |= _of_reply(activity.live, activity.phase)
    if activity.uses:
        forms["uses"] = [((activity.uses, "$text-accent"),)]
    if memory is not None:
        used, free = size(memory.process).rjust(7), size(memory.free).rjust(7)
        forms["memory"] = [(("memory ", _QUIET), (used, ""), (", free ", _QUIET), (free, ""))]
    return forms


def _of_model(activity: Activity) -> SegmentForms:
    forms: dict[str, Sequence[Words]] = {}
    if activity.progress:
        forms["loading"] = [((printable(activity.progress, limit), ""),) for limit in (24, 60)]
    if activity.model:
        limits = (12, 28, 60) if activity.server else (12, 28)  # the name of a server's model has its host
        forms["model"] = [((display_name(activity.model, limit), "bold"),) for limit in limits]
    if activity.threads:
        forms["threads"] = [((f"{activity.threads}", ""), (" thread" if activity.threads == 1 else " threads", _QUIET))]
    if activity.gpu_blocks:
        forms["gpu"] = [(("GPU ", _QUIET), (part_of(activity.gpu_blocks, activity.blocks), ""), (" blocks", _QUIET))]
    if activity.knows_context:
        forms["context"] = _context(activity.used, activity.context)
    if activity.dropped_tokens:
        forms["dropped"] = _dropped(activity)
    return forms


def _dropped(activity: Activity) -> Sequence[Words]:
    count = f"dropped {activity.dropped_tokens:,}"
    # Under "stop" nothing is dropped: another policy was in use then.
    policy = "" if activity.overflow == "stop" else f" ({POLICIES[activity.overflow]})"
    forms = count, f"{count}{policy}", f"context full: {count} tokens{policy}"
    return [((text, "$text-warning"),) for text in forms]


def _context(used: int, total: int) -> Sequence[Words]:
    filled = share(used, total)
    style = level(filled)
    name: Words = (("context ", _QUIET),)
    percent, gauge = f"{filled:4.0%}", (*name, *bar(filled, 8, style))
    return [(*name, (percent, style)), (*gauge, (f" {percent}", style)), (*gauge, (f" {part_of(used, total)}", style))]


def _of_reply(live: Live, now: Phase) -> SegmentForms:
    stats, itl = live.stats, live.stats.itl_ms or {}
    first = ttft(live, now)
    progress = bar(share(*prompt_read(live)), 8, "$text-accent")
    wait = f"{remaining(live.prefill_eta_s)} left" if live.prefill_eta_s is not None else ""
    p50, p95 = (milliseconds(itl.get(key)).rjust(3) for key in ("p50", "p95"))
    forms: dict[str, Sequence[Words]] = {
        "ttft": [(("TTFT ", _QUIET), (first.text.rjust(6), first.style))],
        "speed": [((speed(live.recent_tps).rjust(9), "bold"),)],
        "spark": [((sparkline(live.gaps_ms, itl.get("p50"), width), "$text-primary"),) for width in (8, 16)],
        "mean": [(("mean ", _QUIET), (speed(stats.decode_tps).rjust(9), ""))],
        "itl": [(("p50 ", _QUIET), (p50, ""), (" p95 ", _QUIET), (p95, ""), (" ms", _QUIET))],
        "mbu": [(("MBU ", _QUIET), (ratio(stats.mbu).rjust(4), ""))],
    }
    if stats.mbu is None and now is Phase.READY:  # during a reply it keeps its place
        del forms["mbu"]
    if live.prefill_total or stats.prompt_tokens:  # a server tells nothing of the prompt before the end
        forms["progress"] = [progress, (*progress, (f" {part_of(*prompt_read(live))}", ""))]
        forms["left"] = [((wait.ljust(13), ""),)]
    if now is Phase.DECODE and live.silent_s >= _SILENT_S:
        forms["silent"] = [((f"nothing for {live.silent_s:,.0f} s", "$text-warning"),)]
    if stats.cached_tokens:
        forms["reused"] = [((part_of(stats.cached_tokens, stats.prompt_tokens), ""), (" reused", _QUIET))]
    return forms
