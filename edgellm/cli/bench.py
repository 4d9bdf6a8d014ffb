"""`edgellm bench`: how fast is a model here, and how near to what the machine can do?"""

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from edgellm.bench.options import BASELINE, BenchOptions
from edgellm.cli.options import number, option_of
from edgellm.cli.progress import ProgressLine, show_warnings
from edgellm.cli.shell_completion import model_names
from edgellm.fmt import counted
from edgellm.options import LoadOptions

if TYPE_CHECKING:
    from edgellm.bench.results import BenchResult

_DEFAULT = BenchOptions()
_MOST_THREADS, _MOST_AT_ONCE = 512, 64
F = TypeVar("F", bound=Callable[..., Any])


def _thread_counts(context: click.Context, parameter: click.Parameter, given: str | None) -> list[int] | None:
    if given is None:
        return None
    counts = [int(part) if part.isascii() and part.isdigit() else 0 for part in given.split(",")]
    if not all(1 <= n <= _MOST_THREADS for n in counts):
        raise click.BadParameter(f"give a number from 1 to {_MOST_THREADS}, or several: 1,2.")
    return list(dict.fromkeys(counts))


def _number(short: str, name: str, least: int, what: str, most: float = math.inf) -> Callable[[F], F]:
    """An option that is a number, with its default in the help."""
    default = getattr(_DEFAULT, name[2:].replace("-", "_"))
    names = list(dict.fromkeys([short, name]))
    may_be, shown = number(least, most), f"{what}."
    return click.option(*names, type=int, callback=may_be, default=default, show_default=True, metavar="N", help=shown)


@click.command("bench")
@click.argument("model", shell_complete=model_names)
@_number("-p", "--prompt-tokens", 0, "Tokens of the prompt; 0 leaves prefill out")
@_number("-n", "--tokens", 0, "Tokens to decode; 0 leaves decode out")
@_number("-d", "--depth", 0, "Tokens that are in the context before them")
@click.option("--threads", metavar="N[,N]", callback=_thread_counts, help="Threads, or several numbers to try.")
@_number("--parallel", "--parallel", 1, f"Sequences to decode at once, up to {_MOST_AT_ONCE}", _MOST_AT_ONCE)
@_number("--rounds", "--rounds", 1, "How often speeds are measured; starts are three times")
@option_of(LoadOptions, "kv_type")
@option_of(LoadOptions, "kv_memory")
@option_of(LoadOptions, "gpu_layers")
@click.option("--against", type=click.Choice([BASELINE]), help="Measure this engine, too, in the same rounds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(context: click.Context, /, model: str, threads: list[int] | None, as_json: bool, **given: Any) -> None:
    """Measure how fast MODEL reads a prompt (prefill), writes (decode), and starts.

    Each figure is the median of several rounds, with its spread, beside what the memory and the int8 units of this
    machine give in the same run. MBU is the share of the memory's bandwidth that decoding used. Ctrl-C shows the rounds
    that are complete, and exits with 130.
    """
    load = LoadOptions.from_kwargs(**{name: given.pop(name) for name in ("kv_type", "kv_memory", "gpu_layers")})
    options = BenchOptions(**given, kv_type=load.kv_type, kv_memory=load.kv_memory, gpu_layers=load.gpu_layers)
    chosen = {name for name in given if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
    if options.against:
        from edgellm.bench.baseline import check_baseline

        check_baseline()
    context.exit(_bench(model, options, chosen, threads, as_json))


def _bench(name: str, options: BenchOptions, chosen: set[str], threads: list[int] | None, as_json: bool) -> int:
    from edgellm.arch import describe
    from edgellm.bench.report import bench_report  # after the options were checked: they bring numpy and more
    from edgellm.gguf import GGUFFile
    from edgellm.models import resolve
    from edgellm.system.machine import default_threads

    results: list[BenchResult] = []
    path, interrupted = resolve(name), False
    try:
        with GGUFFile.open(path) as file:
            options = options.fitted(describe(file).context_length, chosen)
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
    """Do all rounds with each number of threads; `results` gets them as they come, so that none is lost."""
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
    from edgellm.cli.bench_report import Glyphs, report  # brings numpy

    glyphs = Glyphs.for_encoding(sys.stdout.encoding if sys.stdout else None)
    click.echo("\n".join(report(found, glyphs)), color=False if os.environ.get("NO_COLOR") else None)
