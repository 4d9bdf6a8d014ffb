"""`edgellm list`: lists the models on this machine."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from shutil import get_terminal_size
from textwrap import wrap

import click

from edgellm.fmt import printable, shown_path, size, table
from edgellm.models import BUILT_IN, LocalModel, find_models

_HEAD = ("name", "size", "type", "architecture", "context", "from", "path")
_OPTIONAL_COLUMNS = ("path", "architecture", "from", "context", "type")
"""The columns that are left out on a narrow screen, in this order."""


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, with the paths.")
def command(as_json: bool) -> None:
    """List the models on this machine; every command accepts their names as MODEL.

    Heads that draft for a model are listed apart: --draft accepts their names. Models are GGUF files in ./models, in
    edgellm's own folder, and in those of Hugging Face, ollama and LM Studio, and the built-in model. A narrow screen
    shows fewer columns; `edgellm info` shows everything about one model.
    """
    models = find_models()
    if as_json:
        click.echo(json.dumps([asdict(model) for model in models], indent=2))
        return
    for line in _sections(models, get_terminal_size().columns):  # 80 if it is not known
        click.echo(line)
    if all(model.source == BUILT_IN or model.is_auxiliary for model in models):
        advice = "`edgellm pull` lists some to download, or put a .gguf file into ./models"
        click.echo(f"there is only the built-in model; {advice}", err=True)


def _sections(models: Sequence[LocalModel], columns: int) -> Iterator[str]:
    """The lines of models, of heads that draft for one, of other files of no model, and of broken ones."""
    usable = [model for model in models if not model.problem]
    if alone := [model for model in usable if not model.is_auxiliary]:
        yield from _fitting(list(_rows(alone)), columns)
    if heads := [model for model in usable if model.is_auxiliary]:
        yield "heads that draft, for --draft:"
        yield from _fitting(list(_rows(heads)), columns)
    for title, is_auxiliary in (("no models:", True), ("cannot be opened:", False)):
        if told := [model for model in models if model.problem and model.is_auxiliary is is_auxiliary]:
            yield title
            yield from _problems(told, columns)


def _rows(models: Iterable[LocalModel]) -> Iterator[tuple[str, ...]]:
    for m in models:
        context = f"{m.context_length:,}" if m.context_length else ""
        facts = (size(m.bytes or 0), m.quantization or "", m.architecture or "", context)
        yield printable(m.name), *facts, m.source, shown_path(m.path)


def _fitting(rows: Sequence[tuple[str, ...]], columns: int) -> list[str]:
    """A table of the columns that fit; name and size are always shown."""
    shown = list(_HEAD)
    for dropped in ("", *_OPTIONAL_COLUMNS):
        shown = [name for name in shown if name != dropped]
        lines = list(table(shown, (tuple(row[_HEAD.index(name)] for name in shown) for row in rows)))
        if max(map(len, lines)) <= columns:
            break
    return lines


def _problems(models: Iterable[LocalModel], columns: int) -> Iterator[str]:
    for m in models:
        yield f"  {shown_path(m.path)} ({m.source})"
        about = printable(m.problem or "", 400)
        yield from wrap(
            about,
            columns,
            initial_indent="    ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
