"""`edgellm convert`: a Hugging Face checkpoint as a GGUF file."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from edgellm.cli.conversion import carry_out, conversion_options
from edgellm.cli.new_file import chosen_target
from edgellm.cli.shell import files


@click.command("convert")
@click.argument("source", metavar="SRC", shell_complete=files)
@click.option(
    "-o",
    "--out",
    metavar="OUT",
    shell_complete=files,
    help="The GGUF file to write; if not given NAME-TYPE.gguf, here.",
)
@conversion_options
def command(source: str, out: str | None, dry_run: bool, force: bool, **given: Any) -> None:
    """Turn SRC, a Hugging Face checkpoint (safetensors), into the GGUF file OUT, in one pass.

    SRC is a folder, or ORG/NAME on Hugging Face, which is fetched first and kept. OUT appears whole or not at all.
    """
    from converters import prepare_convert
    from converters.checkpoint.folder import model_name

    target = chosen_target(out, lambda: model_name(Path(source)), given["type"], force or dry_run)
    folder = _fetched(source)
    carry_out(partial(prepare_convert, folder or source, target, **given), dry_run, force)
    if folder:
        _tell_what_stays(folder)


def _fetched(source: str) -> Path | None:
    """The folder of a checkpoint on a hub; None if `source` is no such name, or is here."""
    from converters.hub_checkpoint import hub_repository

    if not (repository := hub_repository(source)):
        return None
    from converters.required_files import required_files
    from edgellm.cli.screen import Progress, notices
    from edgellm.cli.transfer import Transfer, stopping
    from edgellm.hub import checkpoint

    with stopping(), notices(), Progress() as progress:
        click.echo(f"there is no folder {source} here; asking the hub", err=True)
        return checkpoint(repository, Transfer(progress), required_files)


def _tell_what_stays(folder: Path) -> None:
    from edgellm.fmt import size
    from edgellm.models.pulled import pulled

    for kept in pulled():
        if kept.folder == folder:
            advice = f"`edgellm rm {kept.repository}` frees {size(kept.come)}"
            click.echo(f"the checkpoint stays on this machine; {advice}", err=True)
