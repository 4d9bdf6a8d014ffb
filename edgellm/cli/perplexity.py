"""`edgellm perplexity`: measures how well a model predicts a text, and how far it is from a reference model."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from edgellm.cli.options import number, option_of
from edgellm.cli.progress import ProgressLine, show_warnings
from edgellm.cli.shell_completion import files, model_names
from edgellm.cli.text_file import read_text, time_left
from edgellm.options import LoadOptions
from edgellm.terminal.streams import plus_minus

if TYPE_CHECKING:
    from edgellm.perplexity import Perplexity


@click.command("perplexity")
@click.argument("model", shell_complete=model_names)
@click.argument("file", shell_complete=files)
@click.option(
    "--ctx",
    type=int,
    callback=number(5, why=", as two tokens of each window must be scored"),
    metavar="N",
    help="Tokens of a window; by default 512, or the model's context.",
)
@click.option(
    "--against", metavar="REF", shell_complete=model_names, help="Compare with this model of the same vocabulary."
)
@option_of(LoadOptions, "threads")
@option_of(LoadOptions, "kv_type")
@option_of(LoadOptions, "kv_memory")
@option_of(LoadOptions, "engine")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(context: click.Context, /, model: str, file: str, against: str | None, as_json: bool, **load: Any) -> None:
    """Measure how well MODEL predicts the text in FILE, or on stdin if that is -.

    The text is cut into windows of --ctx tokens, and the second half of each is scored; lower is better. --against
    adds the perplexity of a reference, usually the same model before quantization, and the KL divergence from it.
    Figures after ± are standard errors. Ctrl-C shows the figures so far, and exits with 130.
    """
    LoadOptions.from_kwargs(**load)
    context.exit(_perplexity(model, against, file, as_json, load))


def _perplexity(name: str, against: str | None, file: str, as_json: bool, load: dict[str, Any]) -> int:
    text = read_text(file)
    known: list[Perplexity] = []
    interrupted = False
    try:
        with show_warnings(), ProgressLine() as progress:
            _score(text, name, against, load, progress, known)
    except KeyboardInterrupt:
        interrupted = True
    for found in known:
        _show(found, {"model": name, "file": file, "against": against}, as_json)
        if interrupted:
            click.echo(f"edgellm: note: interrupted after {found.windows:,} of {found.of:,} windows", err=True)
    return 130 if interrupted else 0


def _score(
    text: str, name: str, against: str | None, load: dict[str, Any], progress: ProgressLine, known: "list[Perplexity]"
) -> None:
    """Score a text. `known` always has the latest figures, so that Ctrl-C can show them."""
    from edgellm.model import Model  # these import numpy; wrong options are reported before
    from edgellm.models import resolve
    from edgellm.perplexity import compare, perplexity

    def keep(so_far: "Perplexity") -> None:
        known[:] = [so_far]
        progress.working(_progress(so_far, monotonic() - start))

    with ExitStack() as stack:
        paths = [resolve(each) for each in (name, against) if each is not None]
        progress_callbacks: dict[str, Any] = {"progress": progress.compiling, "uploading": progress.uploading}
        models = [stack.enter_context(Model.open(path, **progress_callbacks, **load)) for path in paths]
        start = monotonic()
        progress.working("reading the text")
        score: Callable[..., Perplexity] = compare if against is not None else perplexity
        score(*models, text, ctx=load["ctx"], progress=keep)


def _progress(so_far: "Perplexity", seconds: float) -> str:
    left = time_left(seconds, so_far.windows, so_far.of)
    return f"{so_far.windows:,} of {so_far.of:,} windows, perplexity {so_far.perplexity:.4f}, {left}"


def _show(found: "Perplexity", names: dict[str, str | None], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(names | asdict(found), indent=2))
        return
    for line in _report(found, plus_minus()):
        click.echo(line)


def _report(found: "Perplexity", within: str) -> Iterator[str]:
    """A line for each figure, with aligned decimal points."""
    from edgellm.perplexity import Comparison

    yield f"perplexity     {found.perplexity:11.4f} {within} {found.perplexity_error:.4f}"
    if isinstance(found, Comparison):
        yield f"  reference    {found.reference_perplexity:11.4f} {within} {found.reference_perplexity_error:.4f}"
        yield f"  ratio        {found.ratio:11.4f} {within} {found.ratio_error:.4f}"
        yield f"KL divergence  {found.kl:13.6f} {within} {found.kl_error:.6f}"
        yield f"  median       {found.kl_median:13.6f}"
        yield f"  99 %         {found.kl_p99:13.6f}"
        yield f"  max          {found.kl_max:13.6f}"
        yield f"same top token {100 * found.top1:9.2f} {within} {100 * found.top1_error:.2f} %"
    yield f"{found.tokens:,} tokens scored, in {found.windows:,} windows of {found.ctx:,}"
