"""The report of a benchmark of serving: latencies, throughput and goodput of each run, and where goodput bends."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from edgellm.cli.bench_report import Glyphs, cells, paired_columns
from edgellm.cli.plot import Plot, draw, log_axis, style_for
from edgellm.fmt import counted, printable

_WIDTH, _HEIGHT = 38, 8
_STALL_S = 1.0
_LATENCIES = {"ttft_ms": "TTFT ms", "itl_ms": "ITL ms", "tpot_ms": "TPOT ms", "latency_ms": "latency ms"}
_COMPARED = {
    "generated_tps": "out tok/s",
    "goodput": "goodput/s",
    "ttft_p95": "TTFT p95 ms",
    "itl_p95": "ITL p95 ms",
}


def serving_report(found: dict[str, Any], encoding: str | None) -> Iterator[str]:
    """The lines of a report of figures from `ServingBench.report`, for a stdout with this encoding."""
    glyphs = Glyphs.for_encoding(encoding)
    yield from _head(found, glyphs)
    runs: list[dict[str, Any]] = found["runs"]
    yield ""
    if found.get("ratio"):
        yield from _comparison(found, glyphs)
    elif len(runs) == 1 or not all(run["rate"] for run in runs):
        for run in runs:
            yield from _run(run)
    else:
        yield from _table(runs)
    for error, count in _errors(runs).items():
        yield f"{counted(count, 'request')}: {printable(error, 400)}"
    if "bend" in found:
        for name in found["targets"]:
            yield from _bend(name, found, encoding)
    yield ""
    yield from _footer(found)


def _head(found: dict[str, Any], glyphs: Glyphs) -> Iterator[str]:
    lengths = [f"prompt {found['prompt_tokens']}", f"reply {found['tokens']}"]
    if found["trace"]:
        lengths = [f"trace {printable(Path(found['trace']).name, 40)}"]
    server = printable(found["server"], 60) if found["server"] else ""
    parts = [
        printable(Path(found["model"]).name, 60),
        server,
        *lengths,
        f"{found['shared_prefix']:,} shared" if found["shared_prefix"] else "",
        f"temp {found['temp']:g}" if found["temp"] else "",
    ]
    yield f" {glyphs.dot} ".join(part for part in parts if part)
    if found["left_out"]:
        yield f"{counted(found['left_out'], 'request')} of the trace left out: empty, or longer than the context"


def _run(run: dict[str, Any]) -> Iterator[str]:
    rate = f"{run['rate']:g} requests/s" if run["rate"] else "times of the trace"
    load = counted(run["clients"], "client") if run["clients"] else rate
    ended = [f"{run['completed']:,} of {counted(run['requests'], 'request')} in {run['seconds']:.1f} s"]
    ended += [f"{run[name]:,} {name}" for name in ("refused", "failed", "unfinished") if run[name]]
    yield click.style(f"{load}: {', '.join(ended)}", bold=True)
    yield f"{'':12}" + "".join(f"{name:>10}" for name in ("p50", "p95", "p99", "mean"))
    for name, label in _LATENCIES.items():
        if values := run[name]:
            yield f"{label:12}" + "".join(f"{values[key]:>10,.1f}" for key in ("p50", "p95", "p99", "mean"))
    cached = f", {run['cached_tokens'] / run['prompt_tokens']:.0%} of them cached" if run["cached_tokens"] else ""
    yield f"tokens/s    {run['generated_tps']:,.1f} generated, {run['prompt_tps']:,.1f} of prompts{cached}"
    yield f"goodput     {run['goodput']:.3g} requests/s: {run['attainment']:.0%} are good"
    yield from _cost(run)


def _table(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A row for each rate, in the order of the rates."""
    yield f"{'':15}{'TTFT ms':>21}{'ITL ms':>20}{'out':>8}{'good':>7}"
    names = ("rate/s", "done", "p50", "p95", "p99", "p50", "p95", "p99", "tok/s", "req/s", "share")
    widths = (7, 9, 7, 7, 7, 7, 7, 7, 7, 7, 6)
    yield _cells(names, widths)
    for run in sorted(runs, key=lambda run: run["rate"] or 0):
        ttft, itl = ([_shown(run[name], key) for key in ("p50", "p95", "p99")] for name in ("ttft_ms", "itl_ms"))
        done = f"{run['completed']}/{run['requests']}"
        row = [f"{run['rate'] or 0:g}", done, *ttft, *itl, f"{run['generated_tps']:,.0f}", f"{run['goodput']:.3g}"]
        row.append(f"{run['attainment']:.0%}")
        yield _cells(row, widths)
    yield from _cost(max(runs, key=lambda run: run["goodput"]))


def _cells(row: Sequence[str], widths: Sequence[int]) -> str:
    """A row of a table; a cell that is too wide moves those behind it."""
    return " ".join(f"{cell:>{width - 1}}" for cell, width in zip(row, widths, strict=True))


def _shown(values: dict[str, float] | None, key: str) -> str:
    if not values:
        return "-"
    value = values[key]
    return f"{value / 1000:,.0f}k" if value >= 1e5 else f"{value:,.{0 if value >= 100 else 1}f}"


def _cost(run: dict[str, Any]) -> Iterator[str]:
    at = f" at {run['rate']:g} requests/s" if run["rate"] else ""
    if (per_joule := run["tokens_per_joule"]) is not None:
        yield f"energy      {per_joule:.3g} generated tokens per joule{at}, {run['joules'] / run['seconds']:.3g} W"
    if (price := run["price_per_million"]) is not None:
        yield f"cost        {price:.3g} for a million generated tokens{at}"


def _comparison(found: dict[str, Any], glyphs: Glyphs) -> Iterator[str]:
    """A table for each load: both targets, and the ratios."""
    for load in found["ratio"]:
        what = counted(load["clients"], "client") if load["clients"] else f"{load['rate']:g} requests/s"
        yield click.style(f"{what}, {counted(load['rounds'], 'round')}", bold=True)
        span = f"min{glyphs.dash}max" if load["rounds"] > 1 else ""
        names = [printable(name.partition("://")[2] or name, 18) for name in found["targets"]]
        rows = [["", names[0], span, names[1], span, "ratio", span]]
        for key, label in _COMPARED.items():
            if key in load:
                ours, theirs = (cells(values, glyphs) for values in load[key]["values"].values())
                rows.append([label, *ours, *theirs, *_ratio_cells(load[key], glyphs, bool(span))])
        yield from paired_columns(rows)


def _ratio_cells(figures: dict[str, Any], glyphs: Glyphs, has_span: bool) -> list[str]:
    if figures["median"] is None:
        return ["", ""]
    span = f"{figures['min']:.2f}{glyphs.dash}{figures['max']:.2f}" if has_span else ""
    return [f"{figures['median']:.2f}", span]


def _errors(runs: Sequence[dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for run in runs:
        for error, count in run["errors"].items():
            found[error] = found.get(error, 0) + count
    return found


def _bend(name: str, found: dict[str, Any], encoding: str | None) -> Iterator[str]:
    """The plots of a target, and the rate at which its goodput bends."""
    measured = [run for run in found["runs"] if run["target"] == name and run["complete"]]
    runs = sorted(measured, key=lambda run: run["rate"])
    of = f" of {printable(name, 40)}" if len(found["targets"]) > 1 else ""
    plots = [_goodput_plot(runs), *_ttft_plot(runs, found["slo_ttft"])]
    style = style_for(encoding)
    yield ""
    for lines in zip(*(draw(plot, _WIDTH, _HEIGHT, style) for plot in plots), strict=True):
        yield "  ".join(lines).rstrip()
    yield _bend_line(found["bend"][name], found["attainment"], of)


def _goodput_plot(runs: Sequence[dict[str, Any]]) -> Plot:
    right = runs[-1]["rate"]
    points = [(run["rate"], run["goodput"]) for run in runs]
    title = "goodput, requests/s (dotted: all good)"
    return Plot(title, points, right, 0, right, ("0", f"{right:.3g}"), [((0, 0), (right, right))])


def _ttft_plot(runs: Sequence[dict[str, Any]], limit: float) -> Iterator[Plot]:
    """The p95 of TTFT on a logarithmic axis; none if no request was completed."""
    right = runs[-1]["rate"]
    times = [(run["rate"], run["ttft_ms"]["p95"] / 1e3) for run in runs if run["ttft_ms"]]
    if times:
        low, high = log_axis([*(seconds for _, seconds in times), limit])
        points = [(rate, math.log10(seconds)) for rate, seconds in times]
        line = (0, math.log10(limit)), (right, math.log10(limit))
        title = "TTFT p95, seconds (dotted: the limit)"
        yield Plot(title, points, right, low, high, (f"{10**low:g}", f"{10**high:g}"), [line])


def _bend_line(bend: dict[str, float | None], attainment: float, of: str) -> str:
    holds, fails = bend["holds"], bend["fails"]
    if fails is None:
        where = f"does not bend up to {holds:g}"
    else:
        where = f"bends below {fails:g}" if holds is None else f"bends between {holds:g} and {fails:g}"
    return f"goodput{of} {where} requests/s ({attainment:.0%} of requests are good)"


def _footer(found: dict[str, Any]) -> Iterator[str]:
    runs = found["runs"]
    yield f"good replies: TTFT at most {found['slo_ttft']:g} s, TPOT at most {1000 * found['slo_itl']:g} ms"
    if (stalled := max((run["stalled_s"] for run in runs), default=0.0)) >= _STALL_S:
        yield f"this program stood still for {stalled:.1f} s, which its latencies contain: measure again"
    if short := sum(run["short"] for run in runs):
        yield f"{counted(short, 'request')} got fewer tokens than asked for"
    pieces, tokens = (sum(run[name] for run in runs) for name in ("pieces", "generated_tokens"))
    if pieces < tokens:
        yield f"{tokens:,} tokens came in {counted(pieces, 'piece')}; ITL is the time between pieces"
    if found["energy_note"]:
        yield f"energy: not measured: {printable(found['energy_note'], 400)}"
    yield f"seed {found['seed']}"
