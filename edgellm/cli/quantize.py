"""`edgellm quantize`: a GGUF file in smaller types."""

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
@click.option("--requantize", is_flag=True, help="Allow IN to be quantized already, which loses more.")
@click.pass_context
def command(context: click.Context, /, model: str, out: str | None, dry_run: bool, force: bool, **given: Any) -> None:
    """Write the GGUF file IN in smaller types to OUT. Metadata is kept; the parts of a split file become one.

    OUT appears whole or not at all; if it is not given it is NAME-TYPE.gguf, here. IN may be the name of a model that
    `edgellm list` shows.
    """
    from converters import prepare_quantize
    from converters.default_name import model_name_of_file
    from edgellm.models import resolve

    _check_words([out] if out else [], context.args)
    path = resolve(model)
    target = output_path(out, lambda: model_name_of_file(path, model), given["type"], force or dry_run, [path])
    run_job(partial(prepare_quantize, path, target, **given), dry_run, force)


def _check_words(out: list[str], others: list[str]) -> None:
    """Raise click.UsageError for a type that is given as a word, as to llama-quantize, and for any further word."""
    if named := next((word for word in [*out, *others] if word.upper() in TYPES.split()), None):
        raise click.UsageError(f"{named} is a type: give it with --type {named}, and the name of a file as OUT")
    if others:
        raise click.UsageError(f"IN and OUT are all that is given without an option, and not {printable(others[0])}")
