"""`edgellm plan`: predicts the memory and the speed of a model."""

import json
from typing import Any

import click

from edgellm.cli.options import context_option, gpu_options, option_of
from edgellm.cli.plan_report import memory_lines, speed_lines
from edgellm.cli.progress import ProgressLine, show_warnings
from edgellm.cli.shell_completion import model_names
from edgellm.errors import EdgeLLMError
from edgellm.options import LoadOptions


@click.command("plan")
@click.argument("model", shell_complete=model_names)
@context_option
@option_of(LoadOptions, "kv_type")
@option_of(LoadOptions, "kv_memory")
@option_of(LoadOptions, "threads")
@option_of(LoadOptions, "draft")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@gpu_options
def command(model: str, as_json: bool, **given: Any) -> None:
    """Show how much memory a model will take and how fast it will write, before it is loaded.

    The speed is computed from the memory bandwidth of this machine and from its speed of multiplying weights in the
    model's formats. The first plan measures both in about five seconds, in which no other program should run (compiling
    kernels takes longer), and keeps them for this number of threads, unless another program took the CPU. `edgellm
    bench` of at least three rounds measures them again. With layers on a GPU, no speed is predicted; where experts are
    on the CPU, the speed that the CPU's part allows is.
    """
    options = LoadOptions.from_kwargs(**given)
    from edgellm.gguf import GGUFFile  # these import numpy; wrong options are reported before
    from edgellm.models import resolve
    from edgellm.speculation.draft_plan import plan_with_draft

    with show_warnings(), GGUFFile.open(resolve(model)) as file:
        plan = plan_with_draft(file, options)
    if not as_json:
        click.echo("\n".join(memory_lines(plan)))  # shown at once; measuring the speed takes seconds
    figures = plan.figures(_speeds(plan.threads, plan.profile_names))
    if as_json:
        click.echo(json.dumps(figures, indent=2))
    elif lines := list(speed_lines(plan, figures)):
        click.echo("\n".join(["", *lines]))


def _speeds(threads: int, names: list[str]) -> dict[str, float]:
    """The speeds of these names: kept ones, and others that are measured now. A note says why some are missing."""
    from edgellm.perf.machine_profile import load_profile

    known = {name: speed for name, speed in load_profile(threads).items() if name in names}
    unknown = [name for name in names if name not in known]
    return known | (_measured(threads, unknown) if unknown else {})


def _measured(threads: int, unknown: list[str]) -> dict[str, float]:
    """Measure speeds, and keep them unless another program took the CPU. If it fails: no speeds, and a note."""
    from edgellm.perf.bandwidth import measure
    from edgellm.perf.machine_profile import save_profile
    from edgellm.system.folders import machine_profile_file

    try:
        with show_warnings(), ProgressLine() as progress:
            progress.working("measuring this machine, once")
            measured = measure(threads, unknown, progress.compiling)
    except EdgeLLMError as error:
        click.echo(f"edgellm: note: the speed cannot be predicted: {error}", err=True)
        return {}
    if not measured.undisturbed:
        note = "another program took the CPU while this machine was measured, so it may be faster than shown here"
        click.echo(f"edgellm: note: {note}; run `edgellm plan` again when no other program runs", err=True)
    elif not save_profile(threads, measured.speeds):
        note = f"the measured speeds cannot be saved in {machine_profile_file()}, so every plan measures them again"
        advice = "make room or check its permissions, or choose another folder with EDGELLM_HOME"
        click.echo(f"edgellm: note: {note}; {advice}", err=True)
    return measured.speeds
