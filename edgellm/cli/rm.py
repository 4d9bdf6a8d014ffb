"""`edgellm rm`: removes pulled models."""

import sys

import click

from edgellm.cli.shell_completion import removable_models
from edgellm.errors import OptionError
from edgellm.fmt import printable, shown_path, size


@click.command("rm")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, shell_complete=removable_models)
@click.option("-y", "--yes", is_flag=True, help="Remove without asking.")
def command(models: tuple[str, ...], yes: bool) -> None:
    """Remove models that `edgellm pull` or `edgellm convert ORG/NAME` downloaded, after asking.

    MODEL is a name in `edgellm list`, or ORG/NAME for all files of that repository, unfinished pulls included. Other
    files are never removed.
    """
    from edgellm.models.removal import find_removable, remove

    items = {(item.folder, item.names): item for model in models for item in find_removable(model)}
    for item in items.values():
        click.echo(f"{printable(item.what, 400)}: {size(item.bytes)} in {shown_path(item.folder)}", err=True)
    total = size(sum(item.bytes for item in items.values()))
    if not yes and not _agreed(f"remove this, and free {total}? [y/N] "):
        click.echo("nothing was removed", err=True)
        return
    for item in items.values():
        remove(item)
    click.echo(f"{total} freed")


def _agreed(question: str) -> bool:
    """Ask on stderr. Raises OptionError at the end of stdin."""
    click.echo(question, nl=False, err=True)
    answer = sys.stdin.readline() if sys.stdin else ""
    if not answer:
        click.echo(err=True)
        raise OptionError("rm asks before it removes anything, but stdin gives no answer; give --yes")
    return answer.strip().casefold() in ("y", "yes")
