"""The report of a benchmark of serving: latencies, throughput and goodput of each run."""

from collections.abc import Iterator
from typing import Any

import click

from edgellm.cli.bench_report import Glyphs
from edgellm.fmt import counted, printable

_LATENCIES = {
    "ttft_ms": "TTFT ms",
    "itl_ms": "ITL ms",
    "tpot_ms": "TPOT ms",
    "latency_ms": "latency ms",
}


def serving_report(found: dict[str, Any], glyphs: Glyphs) -> Iterator[str]:
    """The lines of a report of figures from `ServingBench.report`."""
    parts = [
        printable(found["target"], 48),
        f"prompt {found['prompt_tokens']}",
        f"{found['shared_prefix']:,} shared" if found["shared_prefix"] else "",
        f"reply {found['tokens']}",
        f"seed {found['seed']}",
    ]
    yield f" {glyphs.dot} ".join(part for part in parts if part)
    for run in found["runs"]:
        yield ""
        yield from _run(run, found)


def _run(run: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    load = counted(run["clients"], "client") if run["clients"] else f"{run['rate']:g} requests/s"
    others = [f"{run[name]:,} {name}" for name in ("refused", "failed", "unfinished") if run[name]]
    ended = ", ".join([f"{run['completed']:,} of {counted(run['requests'], 'request')} completed", *others])
    yield click.style(f"{load}: {ended} in {run['seconds']:.1f} s", bold=True)
    yield f"{'':12}{'p50':>9}{'p95':>9}{'p99':>9}{'mean':>9}"
    for name, label in _LATENCIES.items():
        if values := run[name]:
            yield f"{label:12}" + "".join(f"{values[key]:>9,.1f}" for key in ("p50", "p95", "p99", "mean"))
    cached = f", {run['cached_tokens'] / run['prompt_tokens']:.0%} cached" if run["prompt_tokens"] else ""
    yield f"throughput  {run['generated_tps']:,.1f} tokens/s out, {run['prompt_tps']:,.1f} in{cached}"
    limits = f"TTFT {found['slo_ttft']:g} s and TPOT {1000 * found['slo_itl']:g} ms"
    yield f"goodput     {run['goodput']:.2f} requests/s within {limits}: {run['attainment']:.0%}"
    if run["short"]:
        yield f"{counted(run['short'], 'reply')[:-1]}… ended before the wanted length"
    for error, count in run["errors"].items():
        yield f"{count:,} times: {printable(error, 70)}"
