"""`edgellm chat`: the terminal chat."""

import os
import sys
from pathlib import Path

import click

from edgellm.cli.shell import model_names
from edgellm.errors import ModelFileError


@click.command("chat")
@click.argument("model", required=False, shell_complete=model_names)
@click.option("--plain", is_flag=True, help="Lines instead of a screen: for pipes and screen readers.")
@click.option("--continue", "resume", is_flag=True, help="Go on with the chat that was used last.")
def command(model: str | None, plain: bool, resume: bool) -> None:
    """Talk with MODEL: a GGUF file, a name in `edgellm list`, or `builtin`; without it, the one used last.

    Everything that is said is kept, also when the program is killed. F1 shows the keys, /help the commands.
    """
    if not plain:
        _check_terminal()
    from tui.start import start  # the screen's modules take a while

    if model and model.lower().endswith(".gguf") and not Path(model).exists():
        raise ModelFileError(f"{model}: there is no such file; `edgellm list` shows the models on this machine")
    start(model, plain, resume)


def _check_terminal() -> None:
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        raise click.UsageError("the chat needs a terminal; --plain reads lines from stdin and writes to stdout.")
    if os.environ.get("TERM") == "dumb":
        raise click.UsageError("this terminal shows lines only (TERM=dumb); --plain is the chat in lines.")
