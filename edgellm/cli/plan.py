"""`edgellm plan`: what will a model take, and how fast will it be?"""

import json
from collections.abc import Iterator
from typing import Any

import click

from edgellm.cli.options import gpu_options
from edgellm.cli.screen import Progress, notices
from edgellm.cli.shell import model_names
from edgellm.errors import EdgeLLMError
from edgellm.options import LoadOptions
from edgellm.tables import table


@click.command("plan")
@click.argument("model", shell_complete=model_names)
@click.option("--ctx", type=int, help="Most tokens of prompt and reply; the model's own if not given.")
@click.option("--kv-type", metavar="TYPE", help=f"Type of the KV cache [{LoadOptions().kv_type}].")
@click.option("--threads", type=int, help="Threads; if not given one per performance core, or 1 (tiny models).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@gpu_options
def command(model: str, as_json: bool, **given: Any) -> None:
    """Show what memory a model will take and how fast it will write, before it is loaded.

    The speed follows from how fast this machine reads its memory and multiplies weights in the model's formats. The
    first plan measures that, in about five seconds in which nothing else should run (and more to compile kernels), and
    keeps it for this number of threads. `edgellm bench` of at least three rounds measures it anew. With layers on a GPU
    no speed is told.
    """
    options = LoadOptions.from_kwargs(**given)
    from edgellm.gguf import GGUFFile  # after the options were checked: they bring numpy and more
    from edgellm.models import resolve
    from edgellm.plan import make_plan

    with GGUFFile.open(resolve(model)) as file:
        plan = make_plan(file, options)
    if not as_json:
        click.echo("\n".join(_memory(plan.figures({}))))  # which nobody should have to wait for
    figures = plan.figures(_speeds(plan.threads, plan.wanted))
    if as_json:
        click.echo(json.dumps(figures, indent=2))
    elif lines := list(_decode(figures)):
        click.echo("\n".join(["", *lines]))


def _speeds(threads: int, wanted: list[str]) -> dict[str, float]:
    """The speeds of these names that were kept, or are measured now; a note tells why some are missing."""
    from edgellm.speeds import kept

    known = {name: speed for name, speed in kept(threads).items() if name in wanted}
    unknown = [name for name in wanted if name not in known]
    return known | (_measured(threads, unknown) if unknown else {})


def _measured(threads: int, unknown: list[str]) -> dict[str, float]:
    """Speeds that are measured, and kept; none, with a note, where that does not work."""
    from edgellm.home import speeds_file
    from edgellm.measuring import measure
    from edgellm.speeds import keep

    what = "measuring this machine, once"

    def compiling(done: int, total: int) -> None:
        if done < total:
            progress.compiling(done, total)
        else:
            progress.working(what)

    try:
        with notices(), Progress() as progress:
            progress.working(what)
            measured = measure(threads, unknown, compiling)
    except EdgeLLMError as error:
        click.echo(f"edgellm: note: no speed can be told: {error}", err=True)
        return {}
    if not keep(threads, measured):
        note = f"what was measured cannot be kept in {speeds_file()}, so every plan measures it anew"
        advice = "make room or check its permissions, or choose another folder with EDGELLM_HOME"
        click.echo(f"edgellm: note: {note}; {advice}", err=True)
    return measured


def _memory(figures: dict[str, Any]) -> Iterator[str]:
    from edgellm.gguf.printable import counted, size

    memory, ctx, gpu = figures["memory"], counted(figures["ctx"], "token"), figures["gpu"]
    cpu = figures["devices"][0]
    where = f"{cpu['blocks']} blocks{'' if gpu else ', all'} on the CPU"
    rows = [
        ("weights", size(memory["weights"]), f"mapped from the file; {where}"),
        ("KV cache", size(memory["kv_cache"]), f"{figures['kv_type']}, with a full context of {ctx}"),
        ("activations", size(memory["activations"]), "of a part of a prompt"),
        ("scratch", size(memory["scratch"]), f"of {counted(figures['threads'], 'thread')}"),
        ("total", size(memory["total"]), f"of {size(memory['available'])} that are free{_verdict(figures)}"),
    ]
    if gpu:
        rows += _gpu_rows(gpu, figures["devices"][1]["blocks"])
    yield from table(("memory", "size", ""), rows)
    for note in figures["notes"]:
        yield f"note: {note}"


def _decode(figures: dict[str, Any]) -> Iterator[str]:
    from edgellm.gguf.printable import counted, size

    if expected := figures["decode"]:
        full = f"{expected['tps_full']:,.1f} after {counted(figures['ctx'], 'token')}"
        yield f"decode, expected  {expected['tps']:,.1f} tokens/s at first, {full}"
        yield f"memory bandwidth  {size(figures['bandwidth'])}/s with {counted(figures['threads'], 'thread')}"
        yield f"arithmetic        {size(figures['arithmetic'])}/s of these weights, where memory is not waited for"
    elif figures["gpu"] and not _is_from_disk(figures["memory"]):
        yield "decode, expected  not told with a GPU; `edgellm bench` measures it"


def _gpu_rows(gpu: dict[str, Any], blocks: int) -> list[tuple[str, str, str]]:
    from edgellm.gguf.printable import size

    available = gpu["available"]
    free = "" if available is None else f"of {size(available)} that may be used"
    short = available is not None and gpu["total"] > available
    return [
        ("", "", ""),
        ("GPU weights", size(gpu["weights"]), f"{blocks} blocks on {gpu['name']}"),
        ("GPU KV cache", size(gpu["kv_cache"]), "with a full context"),
        ("GPU activations", size(gpu["activations"]), "with what the driver takes, about"),
        ("GPU total", size(gpu["total"]), free + (": too little; choose fewer --gpu-layers" if short else "")),
    ]


def _verdict(figures: dict[str, Any]) -> str:
    if _is_from_disk(figures["memory"]):
        return ": too little, it would run at the speed of the disk; choose a smaller quantization"
    return "" if figures["fits"] else ": too little for a full context; choose a smaller --ctx"


def _is_from_disk(memory: dict[str, int]) -> bool:
    return memory["weights"] > memory["available"]
