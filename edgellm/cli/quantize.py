"""`edgellm quantize`: a GGUF file in smaller types."""

from functools import partial
from typing import Any

import click

from edgellm.cli.conversion import TYPES, carry_out, conversion_options
from edgellm.cli.shell import model_names


@click.command("quantize")
@click.argument("model", metavar="IN", shell_complete=model_names)
@click.argument("out")
@conversion_options
@click.option("--requantize", is_flag=True, help="Allow IN to be quantized already, which loses more.")
def command(model: str, out: str, dry_run: bool, force: bool, **given: Any) -> None:
    """Write the GGUF file IN in smaller types to OUT. Metadata is kept; the parts of a split file become one.

    OUT appears whole or not at all. IN may be the name of a model that `edgellm list` shows.
    """
    from converters import prepare_quantize
    from edgellm.models import resolve

    if out.upper() in TYPES.split():
        raise click.UsageError(f"{out} is a type: give it with --type {out}, and the name of a file as OUT")
    carry_out(partial(prepare_quantize, resolve(model), out, **given), dry_run, force)
