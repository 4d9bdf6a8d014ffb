"""`edgellm quantize`: writes a GGUF file in smaller types."""

from functools import partial
from typing import Any

import click

from edgellm.cli.conversion import TYPES, conversion_options, run_job
from edgellm.cli.output_path import output_path
from edgellm.cli.shell_completion import files, model_names
from edgellm.fmt import printable


@click.command("quantize", context_settings={"allow_extra_args": True})
@click.argument("model", metavar="IN", shell_complete=model_names)
@click.argument("out", required=False, shell_complete=files)
@conversion_options
@click.option("--requantize", is_flag=True, help="Accept a quantized IN; quantizing twice loses more accuracy.")
@click.pass_context
def command(context: click.Context, /, model: str, out: str | None, dry_run: bool, force: bool, **given: Any) -> None:
    """Write the GGUF file IN in smaller types to OUT. Metadata is kept; the parts of a split file become one.

    OUT is complete, or not written; by default it is NAME-TYPE.gguf in the current folder. IN may be a name in
    `edgellm list`.
    """
    from converters import prepare_quantize
    from converters.default_name import model_name_of_file
    from edgellm.models import resolve

    _check_words([out] if out else [], context.args)
    path = resolve(model)
    target = output_path(out, lambda: model_name_of_file(path, model), given["type"], force or dry_run, [path])
    run_job(partial(prepare_quantize, path, target, **given), dry_run, force)


def _check_words(out: list[str], others: list[str]) -> None:
    """Raise click.UsageError for a type as an argument, as llama-quantize has it, and for any further argument."""
    if type := next((word for word in [*out, *others] if word.upper() in TYPES.split()), None):
        raise click.UsageError(f"{type} is a type: give it with --type {type}, and the name of a file as OUT")
    if others:
        raise click.UsageError(f"IN and OUT are all that is given without an option, and not {printable(others[0])}")
