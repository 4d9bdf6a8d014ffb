"""`edgellm devices`: the CPU and the GPUs of this machine."""

import json
from typing import Any

import click

from edgellm.fmt import table


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(as_json: bool) -> None:
    """List the CPU and the GPUs of this machine.

    --gpu takes the number of a GPU or a part of its name. Integrated GPUs and software are used only if they are named
    or --gpu-layers is a number or all.
    """
    from edgellm.engine.backends import BACKENDS, load_backend
    from edgellm.engine.device import DeviceFault
    from edgellm.system.machine import available_memory, cpu_name

    cpu = {"gpu": None, "name": cpu_name(), "kind": "CPU", "backend": "", "features": _cpu_features()}
    found: list[dict[str, Any]] = [{**cpu, "free": available_memory()}]
    for name in BACKENDS:
        try:
            found += [{"gpu": i, **facts} for i, facts in enumerate(load_backend(name).list_gpus())]
        except DeviceFault as fault:
            click.echo(f"edgellm: note: {fault}", err=True)
    click.echo(json.dumps(found, indent=2) if as_json else "\n".join(_as_text(found)))


def _cpu_features() -> list[str]:
    """The instruction sets that kernels use on this CPU."""
    from kquants.compiler.cpu import has_amx, lowering

    return [lowering(), *(["AMX"] if has_amx() else [])]


def _as_text(found: list[dict[str, Any]]) -> list[str]:
    from edgellm.fmt import printable, size

    rows = []
    for each in found:
        number, free = each["gpu"], each["free"]
        facts = ("" if number is None else str(number), printable(each["name"]), each["kind"], each["backend"])
        rows.append((*facts, "unknown" if free is None else size(free), " ".join(each["features"])))
    return list(table(("gpu", "name", "kind", "through", "free memory", "features"), rows))
