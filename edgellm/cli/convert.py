"""`edgellm convert`: makes a GGUF file from a Hugging Face checkpoint."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgellm.cli.conversion import check_no_type, conversion_options, run_job
from edgellm.cli.conversion_progress import ConversionProgress
from edgellm.cli.output_path import output_path
from edgellm.cli.shell_completion import files
from edgellm.fmt import printable, size

if TYPE_CHECKING:
    from converters import Conversion
    from edgellm.cli.progress import ProgressLine


@click.command("convert", context_settings={"allow_extra_args": True})
@click.argument("source", metavar="SRC", shell_complete=files)
@click.option(
    "-o",
    "--out",
    metavar="OUT",
    shell_complete=files,
    help="GGUF file to write; by default NAME-TYPE.gguf in the current folder.",
)
@click.option(
    "--target",
    metavar="MODEL",
    shell_complete=files,
    help="The model that SRC drafts for, if it is a draft head: a GGUF file, or a folder.",
)
@conversion_options
@click.pass_context
def command(context: click.Context, /, source: str, out: str | None, dry_run: bool, force: bool, **given: Any) -> None:
    """Convert SRC, a Hugging Face checkpoint (safetensors), to the GGUF file OUT.

    SRC is a folder, or ORG/NAME on Hugging Face, which is downloaded first and kept. OUT is complete, or not written.
    """
    from converters import prepare_convert
    from converters.checkpoint.folder import model_name
    from converters.gptq.compensation import read_text
    from converters.head_target import read_target
    from edgellm.gguf.imatrix import read_imatrix

    check_no_type(context.args)
    if context.args:
        raise click.UsageError(f"give OUT with -o: -o {printable(context.args[0], 400)}")
    # What is wrong with these is reported before anything is downloaded.
    if given["imatrix"]:
        read_imatrix(given["imatrix"])
    if given["gptq"]:
        read_text(given["gptq"])
    if given["target"] is not None:
        read_target(given["target"])
    read = [given["imatrix"], given["gptq"]]
    target = output_path(out, lambda: model_name(Path(source)), given["type"], force or dry_run, read)
    folder = _fetch(source, given["target"] is not None)

    def prepare(force: bool, progress: "ProgressLine") -> "Conversion":
        floats = ConversionProgress(progress, "writing the model in floats first, for it to read the text")
        return prepare_convert(folder or source, target, force=force, floats_progress=floats, **given)

    run_job(prepare, dry_run, force)
    if folder:
        _report_kept_checkpoint(folder)


def _fetch(source: str, has_target: bool) -> Path | None:
    """Download a checkpoint from a hub, and return its folder; None if `source` is a folder."""
    from converters.hub_checkpoint import hub_repository

    if not (repository := hub_repository(source)):
        return None
    from converters.required_files import required_files
    from edgellm.cli.progress import ProgressLine, show_warnings
    from edgellm.cli.pull_progress import PullDisplay, resume_hint
    from edgellm.hub import fetch_checkpoint

    with resume_hint(), show_warnings(), ProgressLine() as progress:
        click.echo(f"there is no folder {source} here; asking the hub", err=True)
        return fetch_checkpoint(repository, PullDisplay(progress), partial(required_files, has_target=has_target))


def _report_kept_checkpoint(folder: Path) -> None:
    from edgellm.models.pull_records import pulled_repositories

    for kept in pulled_repositories():
        if kept.folder == folder:
            advice = f"`edgellm rm {kept.repository}` frees {size(kept.present_bytes)}"
            click.echo(f"the checkpoint stays on this machine; {advice}", err=True)
