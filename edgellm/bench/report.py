"""From times to figures: the object that `edgellm bench --json` prints.

Speeds are tokens per second of all sequences together. A figure is the median over the rounds, with the minimum and
the maximum. The machine's limits are medians, too, as a single round may have had more for a moment. `rounds` has the
values of each round, and which rounds were undisturbed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from edgellm.bench.options import OURS
from edgellm.bench.results import BenchResult, SideTimes

PHASES = ("prefill", "decode")
MACHINE = ("bandwidth", "int8_peak")


def bench_report(path: str, results: Sequence[BenchResult]) -> dict[str, Any]:
    """All figures: `runs` has one entry for each number of threads; the last one's are repeated at the top level.

    Results without a complete round are left out; the report is empty if there are no others.
    """
    runs = [_run(result) for result in results if result.rounds]
    if not runs:
        return {}
    kv_bytes = results[-1].roofline.kv_bytes_per_token
    options = {"model": path, **asdict(results[-1].options), "kv_bytes_per_token": kv_bytes}
    return {**options, **runs[-1], "runs": runs}


def _run(result: BenchResult) -> dict[str, Any]:
    """The figures of one number of threads."""
    machine = {name: [getattr(each, name) for each in result.rounds] for name in MACHINE}
    limits = {name: median(values) for name, values in machine.items()}
    on_cpu = not any(result.devices.values())  # the limits of a GPU are not measured
    peaks = peak_tps(result, **limits) if on_cpu else dict.fromkeys(PHASES)
    ours, against = _values(result, OURS), result.options.against
    run = {"threads": result.threads, **limits, **_side(result, OURS, ours, peaks)}
    run["rounds"] = ours | machine | {"undisturbed": [each.undisturbed for each in result.rounds]}
    run["devices"] = {phase: devices for phase, devices in result.devices.items() if devices}
    if against:
        theirs = _values(result, against)
        engine = {"engine": against, "version": result.baseline_version, "repacked": result.repacked}
        run["against"] = engine | _side(result, against, theirs, peaks) | {"rounds": theirs}
        run["ratio"] = {name: ratio(name == "cold_start_s", ours[name], theirs[name]) for name in ours}
    return run


def peak_tps(result: BenchResult, bandwidth: float, int8_peak: float) -> dict[str, float | None]:
    """The roofline: tokens per second at the int8 peak (prefill) and at the memory bandwidth (decode); None if unknown.

    The prefill peak counts the products of the layers for a token without logits, not those of the output head and the
    rest of the last layer, which only the last token of a prompt needs.
    """
    prefill = int8_peak / result.int8_products if result.int8_products else None
    return {"prefill": prefill, "decode": decode_peak(result, bandwidth, result.options.tokens)}


def decode_peak(result: BenchResult, bandwidth: float, steps: int, before: int = 0) -> float:
    """Tokens per second if each step reads the weights and the KV cache of all sequences once at this bandwidth.

    The states of recurrent layers are read and written. Of experts, those count that the tokens of a step are expected
    to choose.
    """
    roofline, options = result.roofline, result.options
    context_tokens = options.depth + before + 1 + (steps - 1) / 2  # the mean over the steps
    sequence_bytes = options.parallel * roofline.sequence_bytes(context_tokens)
    return options.parallel * bandwidth / (roofline.step_weight_bytes(options.parallel) + sequence_bytes)


def _values(result: BenchResult, side: str) -> dict[str, list[float]]:
    """The values of every round: tokens per second of the measured phases, seconds of cold starts."""
    times = [each.times[side] for each in result.rounds]
    options = result.options
    tokens = {"prefill": options.prompt_tokens, "decode": options.tokens * options.parallel}
    speeds = {phase: [tokens[phase] / s for s in _seconds(times, phase)] for phase in PHASES if tokens[phase]}
    return speeds | {"cold_start_s": _seconds(times, "cold_start")}


def _seconds(times: Iterable[SideTimes], name: str) -> list[float]:
    return [seconds for each in times if (seconds := getattr(each, name)) is not None]


def _side(
    result: BenchResult, name: str, values: dict[str, list[float]], peaks: dict[str, float | None]
) -> dict[str, Any]:
    """The medians and spreads of one side, and its shares of the machine's peaks."""
    side: dict[str, Any] = {phase: spread("tps", values[phase]) for phase in PHASES if phase in values}
    if "prefill" in side:
        tps, peak = side["prefill"]["tps"], peaks["prefill"]
        side["prefill"] |= {"peak_tps": peak, "int8_share": tps / peak if peak else None}
        side["prefill"]["int8_per_s"] = tps * result.int8_products or None
    if "decode" in side:
        side["decode"] |= {"peak_tps": peaks["decode"], "mbu": _mbu(result, name) if peaks["decode"] else None}
    return side | {"cold_start_s": median(values["cold_start_s"])}


def _mbu(result: BenchResult, side: str) -> float:
    """The memory bandwidth utilization of decoding: the median of all slices.

    Each slice is compared with the bandwidth around it. Where the bandwidth varies, two medians over the whole run may
    be of different times.
    """
    slices = [each for round_ in result.rounds for each in round_.slices]
    speeds = [each.steps * result.options.parallel / each.seconds[side] for each in slices]
    peaks = [decode_peak(result, each.bandwidth, each.steps, each.before) for each in slices]
    return median(speed / peak for speed, peak in zip(speeds, peaks, strict=True))


def ratio(are_times: bool, ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """The speed of edgellm relative to the baseline: the ratio of the medians, and the spread of that of each round."""
    pairs = list(zip(ours, theirs, strict=True))
    if are_times:
        pairs = [(b, a) for a, b in pairs]
    fast, slow = (median(side) for side in zip(*pairs, strict=True))
    return spread("median", [a / b for a, b in pairs]) | {"median": fast / slow}


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """The median, under this name, with `min` and `max`."""
    return {name: median(values), "min": min(values), "max": max(values)}
