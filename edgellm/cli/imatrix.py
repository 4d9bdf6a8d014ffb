"""`edgellm imatrix`: measures which columns of a model's matrices matter, for quantization."""

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from edgellm.cli.options import number, option_of
from edgellm.cli.progress import ProgressLine, show_warnings
from edgellm.cli.prompt_input import STDIN
from edgellm.cli.shell_completion import files, model_names
from edgellm.cli.text_file import read_text, time_left
from edgellm.fmt import counted, printable, shown_path
from edgellm.options import LoadOptions

if TYPE_CHECKING:
    from converters.importance.collect import ImatrixProgress


@click.command("imatrix", context_settings={"allow_extra_args": True})
@click.argument("model", shell_complete=model_names)
@click.argument("text", shell_complete=files)
@click.option("-o", "--out", metavar="FILE", required=True, shell_complete=files, help="File to write.")
@click.option(
    "--ctx",
    type=int,
    callback=number(5, why=", as two tokens of each chunk are scored"),
    metavar="N",
    help="Tokens of a chunk; by default 512, or the model's context.",
)
@click.option("--chunks", type=int, callback=number(1), metavar="N", help="Read the first N chunks; by default all.")
@click.option("--force", is_flag=True, help="Start anew, and replace FILE if it exists.")
@option_of(LoadOptions, "threads")
@option_of(LoadOptions, "kv_type")
@click.pass_context
def command(context: click.Context, /, model: str, text: str, out: str, **given: Any) -> None:
    """Have MODEL read TEXT, a text file, or stdin if that is -, and write an importance matrix to FILE.

    `edgellm convert` and `edgellm quantize` take it with --imatrix: weights that are multiplied by large numbers are
    then kept more exactly. MODEL should be of floats, such as F16; 100 kB of text are enough for most models, more for
    those with experts. The format is llama.cpp's. FILE goes on where it was interrupted, or where TEXT got longer.
    """
    if context.args:
        several = "cat A.txt B.txt | edgellm imatrix MODEL - -o FILE"
        raise click.UsageError(f"one TEXT is read, and not {printable(context.args[0])} too; several by: {several}")
    LoadOptions.from_kwargs(threads=given["threads"], kv_type=given["kv_type"])
    context.exit(_imatrix(model, text, out, given))


def _imatrix(model: str, text: str, out: str, given: dict[str, Any]) -> int:
    content = read_text(text)
    options = {name: value for name, value in given.items() if value is not None}
    known: list[ImatrixProgress] = []
    try:
        with show_warnings(), ProgressLine() as line:
            from converters.importance.collect import imatrix  # imports numpy; wrong options are reported before

            progress: dict[str, Any] = {"progress": _shown(line, known, out), "compile_progress": line.compiling}
            line.working("reading the text")
            found = imatrix(model, content, out, dataset="stdin" if text == STDIN else text, **progress, **options)
    except KeyboardInterrupt:
        if known:
            click.echo(f"edgellm: note: {_interrupted(known[-1], shown_path(out))}", err=True)
        return 130
    entries, chunks = counted(len(found.entries), "tensor"), counted(found.chunks or 0, "chunk")
    click.echo(f"{shown_path(out)}: {entries}, {chunks} of {found.chunk_size:,} tokens")
    return 0


def _shown(line: ProgressLine, known: "list[ImatrixProgress]", out: str) -> "Callable[[ImatrixProgress], None]":
    """Show progress in a line, and keep the latest in `known`."""

    def show(so_far: "ImatrixProgress") -> None:
        if not known:
            _report_start(line, so_far, shown_path(out))
            since.append(monotonic())
        known[:] = [so_far]
        done = so_far.chunks - so_far.before
        if done:
            left = time_left(monotonic() - since[0], done, so_far.of - so_far.before)
            line.working(f"{so_far.chunks:,} of {so_far.of:,} chunks, perplexity {so_far.perplexity:.4f}, {left}")

    since: list[float] = []
    return show


def _report_start(line: ProgressLine, so_far: "ImatrixProgress", out: str) -> None:
    """Say what an existing file has already."""
    if so_far.chunks > so_far.of:
        kept = f"more than --chunks {so_far.of:,}, and keeps them; --force starts anew"
        line.announce(f"edgellm: note: {out} has {counted(so_far.chunks, 'chunk')} already, {kept}")
    elif so_far.chunks == so_far.of:
        line.announce(f"edgellm: note: {out} has all {counted(so_far.chunks, 'chunk')} already")
    elif so_far.before:
        line.announce(f"edgellm: note: {out} has {counted(so_far.before, 'chunk')} of {so_far.of:,}; going on")


def _interrupted(so_far: "ImatrixProgress", out: str) -> str:
    done = f"interrupted after {so_far.chunks:,} of {so_far.of:,} chunks"
    return f"{done}; {out} has them, and the same command goes on" if so_far.chunks else f"{done}; nothing was written"
