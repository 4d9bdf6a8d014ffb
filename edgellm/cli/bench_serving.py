"""`edgellm bench --serve RATE` and `--clients N`: the options, and the run."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, Any

import click

from edgellm.bench.serving.options import CLOSED_REQUESTS, ServingOptions
from edgellm.cli.options import in_order, number, utf8
from edgellm.cli.progress import ProgressLine, show_warnings
from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.options import validate
from edgellm.options.checks import number as number_between

if TYPE_CHECKING:
    from edgellm.bench.serving.serving_bench import ServingBench

_DEFAULT = ServingOptions()
_MOST_RATE = 1000.0


def _rates(context: click.Context, option: click.Parameter, given: str | None) -> tuple[float, ...] | None:
    """Requests per second, from texts such as `0.5` and `1,2,4`."""
    if given is None:
        return None
    try:
        rates = tuple(dict.fromkeys(float(part) for part in given.split(",")))
    except ValueError:
        rates = ()
    if not rates or not all(0 < rate <= _MOST_RATE for rate in rates):
        raise OptionError(
            f"option serve cannot be {printable(given)!r}: give requests per second, above 0, or several: 1,2,4"
        )
    return rates


def _above_zero(context: click.Context, option: click.Parameter, given: float | None) -> float | None:
    return None if given is None else validate(option.name or "", number_between(0, above=True), given)


_options = (
    click.option("--serve", "rates", metavar="RATE[,RATE]", callback=_rates, help="Requests that arrive per second."),
    click.option(
        "--clients", type=int, callback=number(1, 512), metavar="N", help="Clients, each with one request at a time."
    ),
    click.option(
        "--requests",
        type=int,
        callback=number(1, 1_000_000),
        metavar="N",
        help=f"Requests of a run [{CLOSED_REQUESTS} with --clients].",
    ),
    click.option(
        "--duration",
        type=float,
        callback=_above_zero,
        metavar="SECONDS",
        help=f"Time in which requests of --serve arrive [{_DEFAULT.duration:g}].",
    ),
    click.option(
        "--shared-prefix",
        type=int,
        callback=number(0),
        metavar="N",
        help=f"Tokens with which all prompts begin [{_DEFAULT.shared_prefix}].",
    ),
    click.option(
        "--slo-ttft",
        type=float,
        callback=_above_zero,
        metavar="SECONDS",
        help=f"Longest time to first token of a good reply [{_DEFAULT.slo_ttft:g}].",
    ),
    click.option(
        "--slo-itl",
        type=float,
        callback=_above_zero,
        metavar="SECONDS",
        help=f"Longest mean time per later token of a good reply [{_DEFAULT.slo_itl:g}].",
    ),
    click.option(
        "--seed",
        type=int,
        callback=number(0, 2**63 - 1),
        metavar="N",
        help="Seed of prompts, lengths and arrivals; by default a new one.",
    ),
    click.option(
        "--server",
        metavar="URL",
        callback=utf8,
        help="Measure this OpenAI-compatible server instead, with MODEL's tokens.",
    ),
    click.option("--server-model", metavar="NAME", callback=utf8, help="Name of the model in requests to the server."),
)
serving_options = in_order(*_options)
"""Adds the options of a benchmark of serving; without a default, so that those that are given are known."""

_NAMES = (
    "rates",
    "clients",
    "requests",
    "duration",
    "shared_prefix",
    "slo_ttft",
    "slo_itl",
    "seed",
    "server",
    "server_model",
)


def read_serving(given: dict[str, Any], chosen: Set[str]) -> ServingOptions | None:
    """Take the options of a benchmark of serving out of `given`; None if another benchmark is wanted.

    Raises OptionError for options that do nothing together.
    """
    serving = {name: value for name in _NAMES if (value := given.pop(name)) is not None}
    loads = [name for name in ("rates", "clients") if name in serving]
    if not loads:
        for name in serving:
            raise OptionError(f"option {name} does nothing without --serve or --clients: give one of them")
        return None
    if len(loads) > 1:
        raise OptionError("--serve and --clients exclude each other: give one")
    unused = chosen & {"depth", "rounds", "against"}
    unused |= chosen & {"parallel"} if serving.keys() & {"clients", "server"} else set()
    for name in sorted(unused):
        raise OptionError(f"option {name} does nothing with {_how(serving)}: leave it out")
    taken = ("prompt_tokens", "tokens", *chosen & {"parallel"})
    return ServingOptions(**serving, **{name: given[name] for name in taken})


def _how(serving: Mapping[str, Any]) -> str:
    return next(f"--{name}" for name in ("server", "clients", "serve") if name in serving or name == "serve")


def run_serving(model: str, options: ServingOptions, load: dict[str, Any], chosen: Set[str], as_json: bool) -> int:
    """Run a benchmark of serving, and show its figures; returns the exit code."""
    from edgellm.bench.serving.setup import open_serving  # imports numpy

    interrupted, benches = False, list["ServingBench"]()
    try:
        with show_warnings(), ProgressLine() as progress:
            progress.working("warming up")
            with open_serving(model, options, chosen, load, progress.compiling) as bench:
                benches.append(bench)
                _measure(bench, progress)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        for bench in benches:
            if bench.runs:
                _show(bench.report(), as_json)
    if interrupted:
        click.echo("edgellm: note: interrupted; the figures are those of the requests that ended", err=True)
    return 130 if interrupted else 0


def _measure(bench: "ServingBench", progress: ProgressLine) -> None:
    """Run the closed loop, or an open loop for each rate."""

    def tick(load: str) -> Callable[[int, int], None]:
        return lambda done, total: progress.working(f"{load}: {done:,} of {total:,} requests")

    bench.warm_up()
    if clients := bench.options.clients:
        bench.closed_loop(clients, tick(f"{clients} clients"))
    for rate in bench.options.rates:
        bench.open_loop(rate, tick(f"{rate:g} requests/s"))


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    from edgellm.cli.bench_report import Glyphs
    from edgellm.cli.bench_serving_report import serving_report

    glyphs = Glyphs.for_encoding(sys.stdout.encoding if sys.stdout else None)
    click.echo("\n".join(serving_report(found, glyphs)), color=False if os.environ.get("NO_COLOR") else None)
