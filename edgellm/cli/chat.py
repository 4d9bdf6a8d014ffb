"""`edgellm chat`: the terminal chat."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from edgellm.cli.options import (
    generation_options,
    load_options,
    overflow_option,
    system_option,
    template_arg_option,
    template_option,
    utf8,
)
from edgellm.cli.server_options import given_server, server_options
from edgellm.cli.shell_completion import model_names
from edgellm.errors import ModelFileError
from edgellm.fmt import shown_path
from edgellm.options import ChatOptions, GenerationOptions, LoadOptions

_LOCAL = (*LoadOptions.names(), "template", "overflow", "special")
"""Options that need a model on this machine."""


@click.command("chat")
@click.argument("model", required=False, shell_complete=model_names)
@click.option("-p", "--prompt", metavar="TEXT", callback=utf8, help="The first message.")
@click.option("--plain", is_flag=True, help="Read and write lines instead of a screen: for pipes and screen readers.")
@click.option("--continue", "resume", is_flag=True, help="Continue the chat that was used last.")
@server_options
@system_option
@template_option
@template_arg_option
@overflow_option
@generation_options
@load_options
def command(
    model: str | None,
    plain: bool,
    resume: bool,
    prompt: str | None,
    server: str | None,
    server_key: str | None,
    system: str | None,
    template: str | None,
    template_arg: dict[str, Any],
    **given: Any,
) -> None:
    """Talk with MODEL: a GGUF file, a name in `edgellm list`, or `builtin`; by default the one used last.

    All messages are saved, even if the program is killed. Options hold for this run, and override the settings of the
    model. F1 shows the keys, /help the commands.
    """
    if not plain:
        _check_terminal()
    of_server = given_server(server, server_key, _LOCAL, {**given, "template": template})
    options = _checked(given) | _template(template)
    from tui.core.run_options import RunOptions
    from tui.start import start  # imports Textual, which takes a while

    run_options = RunOptions(options, template_arg, system, prompt or "")
    if of_server:
        from tui.core.remote_backend import RemoteBackend

        backend = RemoteBackend(*of_server)
        start(model and backend.reference(model), plain, resume, run_options, backend)
        return
    if model and model.lower().endswith(".gguf") and not Path(model).exists():
        raise _missing(model)
    start(model, plain, resume, run_options)


def _missing(model: str) -> ModelFileError:
    name = shown_path(model)
    return ModelFileError(f"{name}: there is no such file; `edgellm list` shows the models on this machine")


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given. Raises OptionError for impossible values, before the screen starts."""
    options = {name: value for name, value in given.items() if value is not None}
    for kind in (LoadOptions, GenerationOptions, ChatOptions):
        kind.from_kwargs(**{name: value for name, value in options.items() if name in kind.names()})
    return options


def _template(name: str | None) -> dict[str, Any]:
    """The template option, if it was given. Raises OptionError if there is no such template."""
    if name is None:
        return {}
    from edgellm.text.template import template_source  # imports numpy

    template_source(name)
    return {"template": name}


def _check_terminal() -> None:
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        raise click.UsageError("the chat needs a terminal; --plain reads lines from stdin and writes to stdout.")
    if os.environ.get("TERM") == "dumb":
        raise click.UsageError("this terminal shows lines only (TERM=dumb); --plain is the chat in lines.")
