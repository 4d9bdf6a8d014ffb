"""From times to figures: what `edgellm bench --json` prints, and its table shows.

Speeds are tokens a second, those of all sequences together. A figure is the median over the rounds, with the least
and the largest beside it; what the machine gave is, too, as it may be more in a round for a moment alone. `rounds` has
the raw ones, and which rounds were undisturbed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from edgellm.bench.rounds import Result, Times
from edgellm.bench.setting import OURS

HALVES = ("prefill", "decode")
MACHINE = ("bandwidth", "int8_peak")


def figures(path: str, results: Sequence[Result]) -> dict[str, Any]:
    """All figures: `runs` has one entry for each number of threads, and the last one's are repeated at the top.

    Results without a complete round are left out; {} if no other is there.
    """
    runs = [_run(result) for result in results if result.rounds]
    setting = {"model": path, **asdict(results[-1].setting)} if results else {}
    return {**setting, **runs[-1], "runs": runs} if runs else {}


def _run(result: Result) -> dict[str, Any]:
    """The figures of one number of threads."""
    machine = {name: [getattr(each, name) for each in result.rounds] for name in MACHINE}
    gave = {name: median(values) for name, values in machine.items()}
    alone = not any(result.devices.values())  # what a GPU gives at most is not measured
    peaks = peak_speeds(result, **gave) if alone else dict.fromkeys(HALVES)
    ours, against = _speeds(result, OURS), result.setting.against
    run = {"threads": result.threads, **gave, **_side(result, OURS, ours, peaks)}
    run["rounds"] = ours | machine | {"undisturbed": [each.undisturbed for each in result.rounds]}
    run["devices"] = {half: devices for half, devices in result.devices.items() if devices}
    if against:
        theirs = _speeds(result, against)
        engine = {"engine": against, "version": result.peer_version, "repacked": result.repacked}
        run["against"] = engine | _side(result, against, theirs, peaks) | {"rounds": theirs}
        run["ratio"] = {name: ratio(name, ours[name], theirs[name]) for name in ours}
    return run


def peak_speeds(result: Result, bandwidth: float, int8_peak: float) -> dict[str, float | None]:
    """The speeds with the int8 units at their peak, and as fast as the memory was read; None where there is neither.

    Prefill: the products of the layers for most tokens at the int8 peak. (Left out are those for one token alone: the
    output head and most of the last layer.)
    """
    prefill = int8_peak / result.products if result.products else None
    return {"prefill": prefill, "decode": decode_peak(result, bandwidth, result.setting.tokens)}


def decode_peak(result: Result, bandwidth: float, steps: int, before: int = 0) -> float:
    """The speed where each step reads the weights once, and the cells of every sequence, at so many bytes a second."""
    traffic, setting = result.traffic, result.setting
    cells = setting.depth + before + 1 + (steps - 1) / 2  # the mean over the steps
    return setting.parallel * bandwidth / (traffic.weights + setting.parallel * traffic.cell * cells)


def _speeds(result: Result, side: str) -> dict[str, list[float]]:
    """The raw figure of every round: tokens per second of the halves that were measured, seconds of cold starts."""
    times = [each.times[side] for each in result.rounds]
    setting = result.setting
    amounts = {"prefill": setting.prompt_tokens, "decode": setting.tokens * setting.parallel}
    found = {half: [amounts[half] / s for s in _seconds(times, half)] for half in HALVES if amounts[half]}
    return found | {"cold_start_s": _seconds(times, "cold_start")}


def _seconds(times: Iterable[Times], name: str) -> list[float]:
    return [seconds for each in times if (seconds := getattr(each, name)) is not None]


def _side(result: Result, name: str, speeds: dict[str, list[float]], peaks: dict[str, float | None]) -> dict[str, Any]:
    """The medians and spreads of one side, and its shares of the machine's peaks."""
    side: dict[str, Any] = {half: spread("tps", speeds[half]) for half in HALVES if half in speeds}
    if "prefill" in side:
        tps, peak = side["prefill"]["tps"], peaks["prefill"]
        side["prefill"] |= {"peak_tps": peak, "int8_share": tps / peak if peak else None}
        side["prefill"]["int8_per_s"] = tps * result.products or None
    if "decode" in side:
        side["decode"] |= {"peak_tps": peaks["decode"], "mbu": _mbu(result, name) if peaks["decode"] else None}
    return side | {"cold_start_s": median(speeds["cold_start_s"])}


def _mbu(result: Result, side: str) -> float:
    """The share of the memory's bandwidth that decoding used: the median of all turns.

    Each is compared with what the memory gave around it. Where it gives now more and now less, two medians over the
    whole run may be of different times.
    """
    turns = [turn for each in result.rounds for turn in each.turns]
    speeds = [turn.steps * result.setting.parallel / turn.seconds[side] for turn in turns]
    peaks = [decode_peak(result, turn.bandwidth, turn.steps, turn.before) for turn in turns]
    return median(speed / peak for speed, peak in zip(speeds, peaks, strict=True))


def ratio(name: str, ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """How many times as fast as the peer we are: the ratio of the medians, and the spread of those of each round."""
    pairs = list(zip(ours, theirs, strict=True))
    if name == "cold_start_s":  # times, not speeds
        pairs = [(b, a) for a, b in pairs]
    fast, slow = (median(side) for side in zip(*pairs, strict=True))
    return spread("median", [a / b for a, b in pairs]) | {"median": fast / slow}


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """The median, under this name, with `min` and `max`."""
    return {name: median(values), "min": min(values), "max": max(values)}
