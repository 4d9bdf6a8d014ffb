"""The options and reports that `edgellm convert` and `edgellm quantize` share."""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgellm.cli.conversion_progress import ConversionProgress, TextProgress
from edgellm.cli.options import in_order
from edgellm.cli.progress import ProgressLine, show_warnings
from edgellm.cli.shell_completion import files, one_of
from edgellm.fmt import counted, printable, shown_path, size, table

if TYPE_CHECKING:
    from converters import Conversion, ConversionPlan, Report
    from converters.report import ConversionSummary, TensorReport

TYPES = "Q2_K_S Q2_K IQ3_M Q3_K_M Q3_K_L IQ4_XS Q4_0 Q4_K_S MXFP4 Q4_K_M Q5_K_S Q5_K_M Q6_K Q8_0 F16 BF16"
"""The keys of `converters.quant_mixes.QUANT_MIXES`, repeated here because importing them would make --help slow."""

_DEFAULT_TYPE = "Q4_K_M"
_WORST = 5
_SHOWN_ERROR = 1e-4
"""The least relative error that is shown: those of floats that are rounded to F16 are far below it."""


conversion_options = in_order(
    click.option(
        "--type",
        "type",
        default=_DEFAULT_TYPE,
        metavar="TYPE",
        shell_complete=one_of(*TYPES.split(), "dynamic"),
        help=f"Quantization mix or type of the new file, one of {TYPES}, and of quantize also dynamic "
        f"[{_DEFAULT_TYPE}].",
    ),
    click.option(
        "--tensor-type",
        "tensor_types",
        multiple=True,
        metavar="PATTERN=TYPE",
        help="Another type for the tensors whose names match, such as ffn_down=Q6_K; repeatable.",
    ),
    click.option(
        "--imatrix",
        metavar="FILE",
        shell_complete=files,
        help="Weight errors by this importance matrix, of `edgellm imatrix` or llama.cpp.",
    ),
    click.option(
        "--gptq",
        metavar="TEXT",
        shell_complete=files,
        help="Have the model read this text file, and make later columns of a matrix good for errors of earlier ones.",
    ),
    click.option("--force", is_flag=True, help="Replace OUT if it exists."),
    click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing."),
    click.option("--threads", type=int, metavar="N", help="Threads to use; by default one per performance core."),
)
"""Adds the options that both commands have."""


def check_no_type(words: Iterable[str]) -> None:
    """Raise click.UsageError for a type as an argument, as llama-quantize has it."""
    if type := next((word for word in words if word.upper() in TYPES.split()), None):
        raise click.UsageError(f"{type} is a type: give it with --type {type}, and the name of a file as OUT")


def run_job(prepare: Callable[[bool, ProgressLine], "Conversion"], dry_run: bool, force: bool) -> None:
    """Prepare a job with `prepare(force, progress)`, then run it and print its report, or its plan if `dry_run`."""
    with show_warnings(), _clean_exit(), ProgressLine() as progress:
        job = prepare(force or dry_run, progress)
        if dry_run:
            shown = list(_plan(job.plan(progress.compiling)))
        else:
            reading = TextProgress(progress)
            shown = list(_report(job.run(ConversionProgress(progress), progress.compiling, reading)))
    click.echo("\n".join(shown))


@contextmanager
def _clean_exit() -> Iterator[None]:
    """Raise SystemExit on SIGTERM and SIGHUP, which removes temporary files; print a note on Ctrl-C."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    except KeyboardInterrupt:
        click.echo("edgellm: interrupted; nothing was written", err=True)
        raise


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{max(seconds, 0.1):.1f} s"


def _plan(plan: "ConversionPlan") -> Iterator[str]:
    yield from table(("tensor", "shape", "from", "to", "size", "note"), map(_tensor_row, plan.tensors))
    yield ""
    yield from _types(plan)
    yield ""
    yield from _source_note(plan)
    threads = counted(plan.threads, "thread")
    yield from _compensated(plan)
    yield from _without_importance(plan)
    yield from _prediction(plan)
    gptq = ", without the time that --gptq takes" if any(tensor.compensated for tensor in plan.tensors) else ""
    time = f"about {_duration(plan.seconds)} with {threads}{gptq}"
    yield f"{_facts(plan)}; up to {size(plan.memory)} of memory, {time}"
    yield "nothing was written (--dry-run)"


def _report(report: "Report") -> Iterator[str]:
    yield from _types(report)
    if worst := [tensor for tensor in report.worst(_WORST) if (tensor.error or 0.0) >= _SHOWN_ERROR]:
        yield ""
        rows = [(_name(t), t.type, f"{100 * (t.error or 0):#.3g}%") for t in worst]
        yield from table(("largest errors (RMS)", "type", "of the weights"), rows)
    if report.notes:
        yield ""
        yield from table(("not the type of the mix", "type", "why"), _notes(report))
    yield ""
    yield from _source_note(report)
    yield from _compensated(report)
    yield from _without_importance(report)
    yield from _prediction(report)
    yield f"{_facts(report)}, in {report.seconds:.1f} s"


def _source_note(summary: "ConversionSummary") -> Iterator[str]:
    if summary.source_note:
        yield summary.source_note


def _facts(summary: "ConversionSummary") -> str:
    here = Path.cwd().resolve()
    path = summary.path.relative_to(here) if summary.path.is_relative_to(here) else summary.path
    bits = f"{summary.bits_per_weight:.2f} bits per weight"
    return f"{shown_path(path)}: {size(summary.nbytes)}, {bits}"


def _compensated(summary: "ConversionSummary") -> Iterator[str]:
    """A line that says how many tensors have compensated errors, if any."""
    if compensated := sum(tensor.compensated for tensor in summary.tensors):
        others = [tensor for tensor in summary.tensors if tensor.quantized and not tensor.compensated]
        rest = f"; without: {_name(others[0])}" if others else ""
        more = f" and {counted(len(others) - 1, 'other')}" if len(others) > 1 else ""
        yield f"errors of {counted(compensated, 'tensor')} are compensated (GPTQ){rest}{more}"


def _without_importance(summary: "ConversionSummary") -> Iterator[str]:
    """A line if the importance matrix lacks tensors."""
    if lacking := summary.without_importance:
        yield f"no importance for {counted(len(lacking), 'tensor')}, such as {_name(lacking[0])}"


def _prediction(summary: "ConversionSummary") -> Iterator[str]:
    """A line for layers for multi-token prediction: their share of the file, and what uses them."""
    if found := summary.prediction:
        which = "it" if found.layers == 1 else "the first" if found.drafts else "them"
        use = f"--draft auto drafts with {which}" if found.drafts else f"edgellm does not compute {which}"
        takes = "takes" if found.layers == 1 else "take"
        layers = counted(found.layers, "layer")
        yield f"{layers} for multi-token prediction {takes} {size(found.nbytes)} of the file; {use}"


def _types(summary: "ConversionSummary") -> Iterator[str]:
    """A line for each type, ordered by bytes."""
    of: dict[str, list[TensorReport]] = {}
    for tensor in summary.tensors:
        of.setdefault(tensor.type, []).append(tensor)
    by_bytes = sorted(of.items(), key=lambda item: -sum(t.nbytes for t in item[1]))
    rows = [
        (kind, str(len(some)), f"{sum(t.weights for t in some):,}", size(sum(t.nbytes for t in some)))
        for kind, some in by_bytes
    ]
    yield from table(("type", "tensors", "weights", "size"), rows)


def _notes(summary: "ConversionSummary") -> Iterator[tuple[str, ...]]:
    """A line for each reason why a tensor has another type: the first such tensor, and how many more."""
    because: dict[tuple[str, str], list[TensorReport]] = {}
    for tensor in summary.notes:
        because.setdefault((tensor.type, tensor.note), []).append(tensor)
    for (kind, note), tensors in because.items():
        more = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
        yield _name(tensors[0]) + more, kind, note


def _tensor_row(tensor: "TensorReport") -> tuple[str, ...]:
    shape = " x ".join(map(str, tensor.shape))
    return _name(tensor), shape, tensor.source_type, tensor.type, size(tensor.nbytes), tensor.note


def _name(tensor: "TensorReport") -> str:
    return printable(tensor.name)
