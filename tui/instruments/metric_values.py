"""The values in the panel."""

from edgellm.fmt import printable, size
from edgellm.generate.stats import Live, Stats
from tui.core.activity import Activity, Phase
from tui.core.display_names import display_name
from tui.core.memory import Memory
from tui.instruments.bars import level, share
from tui.instruments.metric_row import BarValue, MetricValue, SparklineValue, TextValue
from tui.instruments.metrics import SECTIONS
from tui.instruments.numbers import UNKNOWN, milliseconds, part_of, ratio, remaining, seconds, speed

_MARKS = {
    Phase.CLOSED: ("○", "$foreground-muted"),
    Phase.LOADING: ("◌", "$text-warning"),
    Phase.READY: ("●", "$text-success"),
    Phase.PREFILL: ("▲", "$text-accent"),
    Phase.DECODE: ("▼", "$text-primary"),
}
POLICIES = {"stop": "stop", "drop": "drop oldest", "window": "sliding window"}
"""The names of the overflow policies on the screen."""

_NOTHING: dict[str, MetricValue] = {metric.name: TextValue() for metrics in SECTIONS.values() for metric in metrics}
_NOTHING |= {"progress": BarValue(), "around": TextValue(""), "spark": SparklineValue()}


def metric_values(activity: Activity, memory: Memory | None) -> dict[str, MetricValue]:
    """The value of each row, by the name of its metric."""
    known = _NOTHING | _of_model(activity) | _of_machine(memory)
    if activity.live is not None:
        known |= _of_prompt(activity.live, activity.phase) | _of_reply(activity.live)
    return known


def state(activity: Activity) -> TextValue:
    """What the model does: a symbol and a word."""
    mark, style = _MARKS[activity.phase]
    word = "waiting" if activity.server and activity.phase is Phase.PREFILL else activity.phase.value
    return TextValue(f"{mark} {word}", style)


def prompt_read(live: Live) -> tuple[int, int]:
    """Tokens of the prompt read so far, with the reused ones, and all of them.

    After the context has slid, both count the tokens that are read again in the middle of the reply.
    """
    prompt, cached = live.stats.prompt_tokens, live.stats.cached_tokens
    if live.prefill_total > prompt - cached:
        return live.prefill_done, live.prefill_total
    return cached + live.prefill_done, prompt


def ttft(live: Live, phase: Phase) -> TextValue:
    """The time to the first token; until it comes, the time so far."""
    if live.stats.ttft_s is None and phase in (Phase.PREFILL, Phase.DECODE):
        return TextValue(seconds(live.elapsed_s), "$text-accent")
    return TextValue(seconds(live.stats.ttft_s))


def _phase_or_progress(activity: Activity) -> TextValue:
    now = state(activity)
    if activity.phase is not Phase.LOADING or not activity.progress:
        return now
    return TextValue(f"{now.text[0]} {printable(activity.progress, 28)}", now.style)


def _of_model(activity: Activity) -> dict[str, MetricValue]:
    used, dropped = activity.used, activity.dropped_tokens
    filled = share(used, activity.context)
    return {
        "model": TextValue(display_name(activity.model, 30), "bold"),
        "phase": _phase_or_progress(activity),
        "gauge": BarValue(filled, level(filled)),
        "context": TextValue(f"{part_of(used, activity.context)} {filled:4.0%}" if activity.knows_context else UNKNOWN),
        "overflow": TextValue(UNKNOWN if activity.server else POLICIES[activity.overflow]),
        "dropped": TextValue(f"{dropped:,} tokens", "$text-warning") if dropped else TextValue(),
        "threads": TextValue(f"{activity.threads}" if activity.threads else UNKNOWN),
        "gpu": TextValue(part_of(activity.gpu_blocks, activity.blocks) if activity.blocks else UNKNOWN),
        "weights": TextValue(_in_memory(activity)),
        "drafter": TextValue(display_name(activity.drafter, 23) if activity.drafter else UNKNOWN),
    }


def _in_memory(activity: Activity) -> str:
    """The part of the model that is in memory."""
    if activity.resident is None:
        return UNKNOWN
    if activity.resident == activity.weights:
        return f"all of {size(activity.weights)}"
    return f"{size(activity.resident)} of {size(activity.weights)}"


def _of_prompt(live: Live, phase: Phase) -> dict[str, MetricValue]:
    stats = live.stats
    return {
        "progress": BarValue(share(*prompt_read(live)), "$text-accent"),
        "read": TextValue(part_of(*prompt_read(live))),
        "left": TextValue(remaining(live.prefill_eta_s) if phase is Phase.PREFILL else UNKNOWN),
        "reused": TextValue(part_of(stats.cached_tokens, stats.prompt_tokens)),
        "diverged": TextValue(UNKNOWN if live.diverged_at is None else f"token {live.diverged_at:,}"),
        "around": TextValue(printable(live.diverged_text), "$foreground-muted"),
        "prefill": TextValue(speed(stats.prefill_tps)),
        "ttft": ttft(live, phase),
    }


def _of_reply(live: Live) -> dict[str, MetricValue]:
    stats, itl = live.stats, live.stats.itl_ms or {}
    return {
        "spark": SparklineValue(live.gaps_ms, itl.get("p50")),
        "now": TextValue(speed(live.recent_tps), "bold"),
        "mean": TextValue(speed(stats.decode_tps)),
        "itl": TextValue(f"{milliseconds(itl['p50'])} / {milliseconds(itl['p95']):>3} ms" if itl else UNKNOWN),
        "mbu": TextValue(ratio(stats.mbu)),
        "drafts": TextValue(_drafts(stats)),
        "guided": TextValue(f"{guided.mean:.0%} / {guided.worst:>4.0%}" if (guided := stats.guided) else UNKNOWN),
    }


def _drafts(stats: Stats) -> str:
    if not stats.drafted:
        return UNKNOWN
    steps = f"{stats.tokens_per_step:.1f}/step" if stats.tokens_per_step else ""
    most = max(stats.drafts, key=lambda source: stats.drafts[source].accepted, default="")
    return " · ".join(filter(None, (f"{stats.accepted / stats.drafted:.0%}", steps, most)))


def _of_machine(memory: Memory | None) -> dict[str, MetricValue]:
    if memory is None:
        return {}
    return {"process": TextValue(size(memory.process)), "free": TextValue(size(memory.free))}
