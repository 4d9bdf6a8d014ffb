"""`edgellm batch`: a file of requests in OpenAI's batch format, answered offline, many at once."""

from typing import Any

import click

from edgellm.cli.batch_report import BatchProgress, interrupted, summary
from edgellm.cli.options import load_options, number, utf8
from edgellm.cli.output_path import is_stdout
from edgellm.cli.progress import show_warnings
from edgellm.cli.prompt_input import STDIN, check_file_name
from edgellm.cli.shell_completion import files, model_names
from edgellm.exit_codes import FAILED, INTERRUPTED
from edgellm.options import LoadOptions


@click.command("batch")
@click.argument("model", shell_complete=model_names)
@click.argument("source", metavar="IN.jsonl", shell_complete=files)
@click.option("-o", "--out", required=True, metavar="OUT.jsonl", shell_complete=files, help="The file of answers.")
@click.option(
    "--parallel",
    type=int,
    callback=number(1, 256),
    metavar="N",
    help="Requests at once [default: 32, or 1 where the engine computes one at a time].",
)
@click.option("--restart", is_flag=True, help="Answer all requests anew, whatever an earlier run has left.")
@click.option(
    "--ray",
    metavar="ADDRESS",
    callback=utf8,
    help="Compute on a Ray cluster, at HOST:PORT, or local to start one here.",
)
@load_options
@click.pass_context
def command(
    context: click.Context,
    /,
    model: str,
    source: str,
    out: str,
    parallel: int | None,
    restart: bool,
    ray: str | None,
    **load: Any,
) -> None:
    """Answer the requests in IN.jsonl, one on each line, with MODEL; IN.jsonl - is stdin.

    A line is a request in OpenAI's batch format, or its body alone, such as {"prompt": "Hi"}. OUT.jsonl has an answer
    for each, in the same order. Answers are kept as they come: after Ctrl-C or a kill, the same command goes on. The
    exit code is 1 if a request got an error.
    """
    options = {name: value for name, value in load.items() if value is not None}
    LoadOptions.from_kwargs(**options)
    check_file_name(source, "")
    context.exit(_code(model, source, out, parallel, restart, ray, options))


def _code(
    model: str, source: str, out: str, parallel: int | None, restart: bool, ray: str | None, load: dict[str, Any]
) -> int:
    """Run the batch. Returns the exit code."""
    from converters.target import check_target
    from edgellm.models import resolve

    if is_stdout(out):
        raise click.UsageError("the answers cannot go to stdout, as a killed run goes on from a file: give its name.")
    target = check_target(
        out, [resolve(model), None if source == STDIN else source], force=True, example="answers.jsonl"
    )
    from edgellm.batch.figures import Figures  # these import numpy and starlette
    from edgellm.batch.run import BatchSettings, run

    figures = Figures()
    try:
        with show_warnings(), BatchProgress() as progress:
            run(BatchSettings(model, source, target, load, parallel, restart, ray), figures, progress)
    except KeyboardInterrupt:
        click.echo(f"edgellm: note: {interrupted(figures, restart)}", err=True)
        return INTERRUPTED
    click.echo(f"edgellm: {summary(figures, out)}", err=True)
    return FAILED if figures.failed else 0
