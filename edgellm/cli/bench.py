"""`edgellm bench`: how fast a model runs here, and how near that is to the limits of the machine."""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from edgellm.bench.options import BASELINE, LOAD_NAMES, BenchOptions
from edgellm.bench.serving.lengths import Lengths
from edgellm.cli.bench_drafting import drafting_options, read_drafting, run_drafting
from edgellm.cli.bench_serving import run_serving
from edgellm.cli.bench_serving_options import read_serving, serving_options
from edgellm.cli.options import AdvisedChoice, moe_options, number, option_of
from edgellm.cli.progress import ProgressLine, show_warnings
from edgellm.cli.shell_completion import model_names
from edgellm.errors import OptionError
from edgellm.fmt import counted, printable
from edgellm.options import LoadOptions
from edgellm.terminal.streams import write_styled

if TYPE_CHECKING:
    from edgellm.bench.results import BenchResult

_DEFAULT = BenchOptions()
_BASELINES = AdvisedChoice([BASELINE], f"--against: edgellm compares with {BASELINE} only")
_LENGTH_NAMES = ("prompt_tokens", "tokens")
_MAX_THREADS, _MAX_PARALLEL = 512, 64
F = TypeVar("F", bound=Callable[..., Any])


def _thread_counts(context: click.Context, parameter: click.Parameter, given: str | None) -> list[int] | None:
    if given is None:
        return None
    counts = [int(part) if part.isascii() and part.isdigit() else 0 for part in given.split(",")]
    if not all(1 <= n <= _MAX_THREADS for n in counts):
        raise click.BadParameter(f"give a number from 1 to {_MAX_THREADS}, or several: 1,2.")
    return list(dict.fromkeys(counts))


def _lengths(context: click.Context, parameter: click.Parameter, given: str) -> Lengths:
    try:
        return Lengths.parse(given)
    except ValueError as error:
        raise OptionError(f"option {parameter.name} cannot be {printable(given)!r}: {error}") from None


def _length(name: str, short: str, help: str) -> Callable[[F], F]:
    """A click option for a number of tokens; with --serve and --clients also a range."""
    default = getattr(_DEFAULT, name.replace("-", "_"))
    text = f"{help} [{default}]."
    return click.option(short, f"--{name}", callback=_lengths, default=str(default), metavar="N[-N]", help=text)


def _number(name: str, *short: str, help: str, least: int, most: float = math.inf) -> Callable[[F], F]:
    """A click option for a number of the setting; its default is in the help."""
    default = getattr(_DEFAULT, name.replace("-", "_"))
    return click.option(
        *short,
        f"--{name}",
        type=int,
        callback=number(least, most),
        default=default,
        metavar="N",
        help=f"{help} [{default}].",
    )


@click.command("bench")
@click.argument("model", shell_complete=model_names)
@_length("prompt-tokens", "-p", help="Tokens of the prompt; 0 skips prefill")
@_length("tokens", "-n", help="Tokens to decode; 0 skips decode")
@_number("depth", "-d", least=0, help="Tokens in the context before prompt and decode")
@click.option("--threads", metavar="N[,N]", callback=_thread_counts, help="Compute threads, or several numbers to try.")
@_number("parallel", least=1, most=_MAX_PARALLEL, help=f"Sequences to decode at once, up to {_MAX_PARALLEL}")
@_number("rounds", least=1, help="Rounds of measuring; the start is measured three times")
@option_of(LoadOptions, "kv_type")
@option_of(LoadOptions, "kv_memory")
@option_of(LoadOptions, "gpu_layers")
@moe_options
@click.option("--against", type=_BASELINES, help="Measure this engine as well, in the same rounds.")
@drafting_options
@serving_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(context: click.Context, /, model: str, threads: list[int] | None, as_json: bool, **given: Any) -> None:
    """Measure how fast MODEL reads a prompt (prefill), writes (decode), and starts.

    Each figure is the median of several rounds, with its spread. Each round also measures the memory bandwidth and the
    int8 peak of this machine. MBU is the share of the memory bandwidth that decode uses. Ctrl-C shows the complete
    rounds, and exits with 130.

    With --serve or --clients: measure latency, goodput and cost of many requests at once. --serve sends requests at
    random times, RATE per second, that wait for no other. A reply is good if it keeps the limits --slo-ttft and
    --slo-itl.

    With --draft: measure replies with drafts and without, in turn.
    """
    load = {name: given.pop(name) for name in LOAD_NAMES}
    checked = LoadOptions.from_kwargs(**load)
    load = {name: getattr(checked, name) for name in LOAD_NAMES}
    chosen = {name for name in given if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
    alone = load | {"threads": threads[0] if threads else None}
    if "draft" in chosen:
        given["tokens"] = _one_length("tokens", given["tokens"])
    if drafting := read_drafting(given, chosen):
        _check_one(threads)
        context.exit(run_drafting(model, drafting, alone, as_json))
    if serving := read_serving(given, chosen):
        _check_one(threads)
        context.exit(run_serving(model, serving, alone, chosen, as_json))
    given |= {name: _one_length(name, given[name]) for name in _LENGTH_NAMES}
    options = BenchOptions(**given, **load)
    if options.against:
        from edgellm.bench.baseline import check_baseline

        check_baseline()
    context.exit(_bench(model, options, chosen, threads, as_json))


def _check_one(threads: list[int] | None) -> None:
    if threads and len(threads) > 1:
        raise OptionError("option threads cannot be several numbers with --draft, --serve and --clients: give one")


def _one_length(name: str, lengths: Lengths) -> int:
    if lengths.least < lengths.most:
        raise OptionError(f"option {name} cannot be a range without --serve or --clients: give a number")
    return lengths.least


def _bench(name: str, options: BenchOptions, chosen: set[str], threads: list[int] | None, as_json: bool) -> int:
    from edgellm.arch import describe
    from edgellm.bench.report import bench_report  # these import numpy; wrong options are reported before
    from edgellm.gguf import GGUFFile
    from edgellm.models import resolve
    from edgellm.system.machine import default_threads

    results: list[BenchResult] = []
    path, interrupted = resolve(name), False
    try:
        with GGUFFile.open(path) as file:
            options = options.fit_to_context(describe(file).context_length, chosen)
            threads = threads or [default_threads(file.nbytes)]
        _measure(path, options, threads, results)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if found := bench_report(str(path), results):
            _show(found, as_json)
    if interrupted:
        click.echo(f"edgellm: note: interrupted {_how_far(results, options.rounds)}", err=True)
    return 130 if interrupted else 0


def _how_far(results: "list[BenchResult]", rounds: int) -> str:
    if not results:
        return "before the first round"
    threads = counted(results[-1].threads, "thread")
    return f"after {len(results[-1].rounds)} of {counted(rounds, 'round')} with {threads}"


def _measure(path: Path, options: BenchOptions, threads: list[int], results: "list[BenchResult]") -> None:
    """Run all rounds with each number of threads. Each is added to `results` at once, so that Ctrl-C loses none."""
    from edgellm.bench.setup import open_bench

    with show_warnings():
        for n in threads:
            with (
                ProgressLine() as progress,
                open_bench(path, options, n, progress.compiling, progress.working) as bench,
            ):
                results.append(bench.result)
                for _ in range(options.rounds):
                    bench.round(progress.working)


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    from edgellm.cli.bench_report import Glyphs, report

    glyphs = Glyphs.for_encoding(sys.stdout.encoding if sys.stdout else None)
    write_styled("\n".join([*report(found, glyphs), ""]))
