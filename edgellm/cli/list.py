"""`edgellm list`: which models are on this machine?"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import click

from edgellm.gguf.printable import printable, size
from edgellm.models import BUILT_IN, Found, find_models
from edgellm.tables import table

_HEAD = ("name", "size", "type", "architecture", "context", "from", "path")


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(as_json: bool) -> None:
    """List the models on this machine; every command accepts their names as MODEL.

    They are those in ./models and in edgellm's own folder, the GGUF files that Hugging Face, ollama and
    LM Studio keep, and the built-in one.
    """
    models = find_models()
    if as_json:
        click.echo(json.dumps([asdict(model) for model in models], indent=2))
        return
    whole, broken = ([m for m in models if bool(m.problem) is bad] for bad in (False, True))
    if whole:
        click.echo("\n".join(table(_HEAD, _rows(whole))))
    if broken:
        click.echo("\n".join(_problems(broken)))
    if all(model.source == BUILT_IN for model in models):
        click.echo("no models of yours; `edgellm pull` shows some to get, or put a .gguf file into ./models", err=True)


def _rows(models: Iterable[Found]) -> Iterator[tuple[str, ...]]:
    for m in models:
        context = f"{m.context_length:,}" if m.context_length else ""
        facts = (size(m.bytes or 0), m.quantization or "", m.architecture or "", context)
        yield printable(m.name), *facts, m.source, printable(m.path, 400)


def _problems(models: Iterable[Found]) -> Iterator[str]:
    yield "cannot be opened:"
    for m in models:
        yield f"  {printable(m.path, 400)} ({m.source}) {m.problem}"
