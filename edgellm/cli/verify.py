"""`edgellm verify`: checks that a model file is complete and valid."""

import json
from collections.abc import Iterator

import click

from edgellm.arch import describe
from edgellm.cli.shell_completion import names_of_files
from edgellm.errors import ModelFileError, UnsupportedModelError
from edgellm.fmt import counted, printable, shown_path, size
from edgellm.gguf import GGUFFile
from edgellm.gguf.check import find_problems
from edgellm.gguf.imatrix import Imatrix, find_imatrix
from edgellm.models import resolve


@click.command("verify")
@click.argument("model", shell_complete=names_of_files)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(model: str, as_json: bool) -> None:
    """Check a model file: its structure, its metadata against its tensors, NaN and Inf in its weights.

    Or an importance matrix: that its tensors fit each other, and are finite and not negative.

    Prints a line for each problem, and exits with 1 if there are any.
    """
    try:
        path = resolve(model)
        if found := find_imatrix(path):  # which checks it
            _show_imatrix(found, as_json)
            return
        with GGUFFile.open(path) as file:
            _verify(file, as_json)
    except ModelFileError as error:
        if as_json and not isinstance(error, _ProblemsFoundError):
            click.echo(json.dumps({"path": model, "ok": False, "problems": [str(error)]}))
        raise


class _ProblemsFoundError(ModelFileError):
    """The file can be opened; its problems were printed."""


def _show_imatrix(found: Imatrix, as_json: bool) -> None:
    tensors, nbytes = len(found.entries), found.path.stat().st_size
    if as_json:
        facts = {"path": str(found.path), "ok": True, "problems": [], "tensors": tensors, "bytes": nbytes}
        click.echo(json.dumps(facts))
    else:
        name = shown_path(found.path)
        click.echo(f"ok: {name}, importance matrix of {counted(tensors, 'tensor')}, {size(nbytes)}")


def _problems(file: GGUFFile) -> Iterator[str]:
    """Each problem of the file; if there is no other, what contradicts its architecture, where edgellm knows that."""
    is_sound = True
    for problem in find_problems(file):
        is_sound = False
        yield problem
    if is_sound and file.tensors:
        try:
            describe(file)
        except UnsupportedModelError:
            return
        except ModelFileError as error:
            yield str(error).removeprefix(f"{shown_path(file.path)}: ")


def _verify(file: GGUFFile, as_json: bool) -> None:
    problems = []
    for problem in _problems(file):
        problems.append(problem)
        if not as_json:
            click.echo(printable(problem, 400))
    name = shown_path(file.path)
    found = {"path": str(file.path), "ok": not problems, "problems": problems}
    if as_json:
        click.echo(json.dumps(found | {"tensors": len(file.tensors), "bytes": file.nbytes}))
    elif not problems:
        click.echo(f"ok: {name}, {len(file.tensors)} tensors, {size(file.nbytes)}")
    if problems:
        raise _ProblemsFoundError(f"{name}: has {counted(len(problems), 'problem')}; download or convert it again")
