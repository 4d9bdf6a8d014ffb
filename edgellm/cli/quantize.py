"""`edgellm quantize`: writes a GGUF file in smaller types."""

from typing import TYPE_CHECKING, Any

import click

from edgellm.cli.conversion import check_no_type, conversion_options, run_job
from edgellm.cli.conversion_progress import MeasuringProgress
from edgellm.cli.output_path import output_path
from edgellm.cli.progress import ProgressLine
from edgellm.cli.shell_completion import files, names_of_files
from edgellm.cli.text_file import read_text
from edgellm.fmt import printable

if TYPE_CHECKING:
    from converters import Conversion


@click.command("quantize", context_settings={"allow_extra_args": True})
@click.argument("model", metavar="IN", shell_complete=names_of_files)
@click.argument("out", required=False, shell_complete=files)
@conversion_options
@click.option("--size", metavar="SIZE", help="With --type dynamic: the most bytes of OUT, such as 4.5GB.")
@click.option("--bits", type=float, metavar="N", help="With --type dynamic: the most bits per weight, such as 4.2.")
@click.option(
    "--calibration",
    metavar="FILE",
    shell_complete=files,
    help="With --type dynamic: the text that the model reads to measure its tensors.",
)
@click.option("--requantize", is_flag=True, help="Accept a quantized IN; quantizing twice loses more accuracy.")
@click.pass_context
def command(
    context: click.Context,
    /,
    model: str,
    out: str | None,
    dry_run: bool,
    force: bool,
    calibration: str | None,
    **given: Any,
) -> None:
    """Write the GGUF file IN in smaller types to OUT. Metadata is kept; the parts of a split file become one.

    OUT is complete, or not written; by default it is NAME-TYPE.gguf in the current folder. IN may be a name in
    `edgellm list`.

    --type dynamic gives most bits to the tensors that cost the model most, within --size or --bits. It measures that on
    the text of --calibration, of which up to 2,048 tokens are read for each tensor.
    """
    from converters import prepare_quantize
    from converters.default_name import model_name_of_file
    from edgellm.models import resolve

    _check_words([out] if out else [], context.args)
    path = resolve(model)
    read = [path, given["imatrix"], given["gptq"], calibration]
    target = output_path(out, lambda: model_name_of_file(path, model), given["type"], force or dry_run, read)
    text = None if calibration is None else read_text(calibration, "--calibration")

    def prepare(force: bool, progress: ProgressLine) -> "Conversion":
        if calibration is not None:
            given["calibration_name"] = calibration
        given.update(measuring=MeasuringProgress(progress), compile_progress=progress.compiling)
        return prepare_quantize(path, target, force=force, calibration=text, **given)

    run_job(prepare, dry_run, force)


def _check_words(out: list[str], others: list[str]) -> None:
    """Raise click.UsageError for a type as an argument, and for any further argument."""
    check_no_type([*out, *others])
    if others:
        raise click.UsageError(f"IN and OUT are all that is given without an option, and not {printable(others[0])}")
