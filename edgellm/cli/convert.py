"""`edgellm convert`: a Hugging Face checkpoint as a GGUF file."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from edgellm.cli.conversion import conversion_options, run_job
from edgellm.cli.output_path import output_path
from edgellm.cli.shell_completion import files
from edgellm.fmt import size


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

    target = output_path(out, lambda: model_name(Path(source)), given["type"], force or dry_run)
    folder = _fetched(source)
    run_job(partial(prepare_convert, folder or source, target, **given), dry_run, force)
    if folder:
        _tell_what_stays(folder)


def _fetched(source: str) -> Path | None:
    """The folder of a checkpoint on a hub; None if `source` is no such name, or is here."""
    from converters.hub_checkpoint import hub_repository

    if not (repository := hub_repository(source)):
        return None
    from converters.required_files import required_files
    from edgellm.cli.progress import ProgressLine, show_warnings
    from edgellm.cli.pull_progress import PullDisplay, resume_hint
    from edgellm.hub import fetch_checkpoint

    with resume_hint(), show_warnings(), ProgressLine() as progress:
        click.echo(f"there is no folder {source} here; asking the hub", err=True)
        return fetch_checkpoint(repository, PullDisplay(progress), required_files)


def _tell_what_stays(folder: Path) -> None:
    from edgellm.models.pull_records import pulled_repositories

    for kept in pulled_repositories():
        if kept.folder == folder:
            advice = f"`edgellm rm {kept.repository}` frees {size(kept.present_bytes)}"
            click.echo(f"the checkpoint stays on this machine; {advice}", err=True)
