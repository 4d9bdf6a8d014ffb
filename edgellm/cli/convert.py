"""`edgellm convert`: a Hugging Face checkpoint as a GGUF file."""

from typing import Any

import click

from edgellm.cli.conversion import carry_out, conversion_options


@click.command("convert")
@click.argument("source", metavar="SRC")
@click.option("-o", "--out", required=True, metavar="OUT", help="The GGUF file to write.")
@conversion_options
def command(source: str, out: str, dry_run: bool, **given: Any) -> None:
    """Turn SRC, the folder of a Hugging Face checkpoint (safetensors), into the GGUF file OUT, in one pass.

    OUT appears whole or not at all.
    """
    from converters import prepare_convert

    carry_out(lambda: prepare_convert(source, out, **given), dry_run)
