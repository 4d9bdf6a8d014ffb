"""`edgellm bench --serve RATE` and `--clients N`: the run."""

import json
import sys
from collections.abc import Set
from typing import TYPE_CHECKING, Any

import click

from edgellm.bench.serving.options import ServingOptions
from edgellm.cli.progress import ProgressLine, show_warnings
from edgellm.terminal.streams import write_styled

if TYPE_CHECKING:
    from edgellm.bench.serving.serving_bench import ServingBench


def run_serving(model: str, options: ServingOptions, load: dict[str, Any], chosen: Set[str], as_json: bool) -> int:
    """Run a benchmark of serving, and show its figures; returns the exit code."""
    from edgellm.bench.serving.setup import open_serving  # imports numpy

    interrupted, opened = False, list["ServingBench"]()
    try:
        with show_warnings(), ProgressLine() as progress:
            progress.working("opening the model")
            with open_serving(model, options, chosen, load, progress.compiling) as bench:
                opened.append(bench)
                bench.run(progress.working)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        for bench in opened:
            if bench.runs:
                _show(bench.report(), as_json)
    if interrupted:
        click.echo("edgellm: note: interrupted; the figures are those of the requests that ended", err=True)
    return 130 if interrupted else 0


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    from edgellm.cli.bench_serving_report import serving_report

    encoding = sys.stdout.encoding if sys.stdout else None
    write_styled("\n".join([*serving_report(found, encoding), ""]))
