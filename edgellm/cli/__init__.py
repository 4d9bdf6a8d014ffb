"""The `edgellm` command. Each subcommand is a module of its name, imported only when it is called.

options, prompt_input         click options; those of models and generation are made from `edgellm.options`
aliases, unsupported          commands and options of other programs
progress, pull_progress       progress on stderr
conversion, output_path       what `convert` and `quantize` share
bench_report                  the report of `bench`
shell_completion              completion in shells
"""

import errno
import os
import shlex
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from edgellm import __version__
from edgellm.cli import aliases
from edgellm.cli.shell_completion import VARIABLE, answer
from edgellm.errors import EdgeLLMError, OptionError, PromptError
from edgellm.exit_codes import FAILED, INTERRUPTED, PIPE_CLOSED, WRONG_USAGE
from edgellm.fmt import printable
from edgellm.options.aliases import closest_match
from edgellm.system.os_errors import explain_error
from edgellm.system.shadowing import check_not_shadowed

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "bench": "Measure how fast a model runs here.",
    "chat": "Talk with a model in the terminal.",
    "completion": "Print a script that completes commands in a shell.",
    "convert": "Make a GGUF file from a Hugging Face checkpoint.",
    "devices": "List the CPU and the GPUs of this machine.",
    "generate": "Stream the reply to a prompt to stdout.",
    "info": "Show what is in a model file.",
    "list": "List the models on this machine.",
    "perplexity": "Measure how well a model predicts a text.",
    "plan": "Predict the memory and the speed of a model.",
    "pull": "Download a model from Hugging Face.",
    "quantize": "Make a smaller GGUF file from a GGUF file.",
    "rm": "Remove models that were pulled.",
    "tokenize": "Turn text from stdin into token ids, or back.",
    "verify": "Check that a model file is complete and valid.",
}
_LONGEST = 4000
"""The maximum characters of an error: a message with a path or two."""

_WORDS = {"ctx": "--ctx", "overflow": "--overflow drop or window", "prompt": "some text with -p"}
"""The words for settings in errors about prompts."""

_PACKAGES = {"chat": ("tui",), "convert": ("converters",), "quantize": ("converters",)}
"""The packages beside edgellm that a command imports."""

_DISK_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


class LazyGroup(click.Group):
    """A group that has names and one-line help of its commands, and imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in alphabetical order."""
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of a name, from its module `edgellm.cli.NAME`; None if there is none."""
        if name not in COMMANDS:
            return None
        check_not_shadowed("kquants", *_PACKAGES.get(name, ()))
        command: click.Command = import_module(f"edgellm.cli.{name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first argument, also by an alias, and its translated arguments."""
        name = aliases.COMMAND_ALIASES.get(args[0], args[0])
        if name not in COMMANDS and not ctx.resilient_parsing:  # so a shell completes
            _refuse(ctx, name, args[1:])
        found, command, rest = super().resolve_command(ctx, [name, *args[1:]])
        return found, command, self._translated(ctx, command, rest) if command else rest

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the command. Options of other programs raise an error with advice."""
        if args and not ctx.resilient_parsing:
            aliases.check_group(self, args[0])
        return super().parse_args(ctx, args)

    def _translated(self, ctx: click.Context, command: click.Command, args: list[str]) -> list[str]:
        try:
            return aliases.translate_arguments(command, args)
        except click.UsageError as error:
            if ctx.resilient_parsing:  # so a shell completes
                return args
            error.ctx = click.Context(command, ctx, command.name)
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem"]:
        """The commands that begin with `incomplete`, and their help, without importing them."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(n, help=h) for n, h in COMMANDS.items() if n.startswith(incomplete)]
        return found or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])  # `list` is a submodule once that command was called


def _refuse(ctx: click.Context, name: str, rest: list[str]) -> None:
    """Fail with advice for an unknown command; `help` shows the help of the group or of a command."""
    if name == "help":
        _help(ctx, rest)
    if advice := aliases.UNSUPPORTED_COMMANDS.get(name):
        ctx.fail(f"edgellm has no `{name}`: {advice}")
    if name.lower().endswith(".gguf"):
        ctx.fail(f"the command comes before the model: edgellm chat {shlex.quote(printable(name, 400))}")
    if meant := closest_match(name, [*COMMANDS, *aliases.COMMAND_ALIASES]):
        ctx.fail(f"No such command '{printable(name)}'; did you mean {aliases.COMMAND_ALIASES.get(meant, meant)}?")


def _help(ctx: click.Context, words: list[str]) -> None:
    if not words:
        click.echo(ctx.get_help())
    elif found := ctx.command.resolve_command(ctx, words)[1]:  # type: ignore[attr-defined]
        with click.Context(found, ctx, found.name) as context:
            click.echo(context.get_help())
    ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="edgellm %(version)s")
def cli() -> None:
    """Run GGUF language models on this machine, fast, from Python."""


def run() -> int:
    """Run the command line. Returns the exit code (see `edgellm.exit_codes`)."""
    try:
        if instruction := os.environ.get(VARIABLE):
            return answer(cli, instruction)
        code = _invoke(sys.argv[1:] or ["--help"])
        if sys.stdout:
            sys.stdout.flush()
        return code
    except click.UsageError as error:
        names = [error.ctx.command_path, error.ctx.invoked_subcommand] if error.ctx else ["edgellm"]
        command = " ".join(name for name in names if name)
        return _complain(f"{' '.join(error.format_message().split())} (see {command} --help)", WRONG_USAGE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return PIPE_CLOSED
    except OptionError as error:
        return _complain(_as_flag(str(error)), WRONG_USAGE)
    except PromptError as error:
        return _complain(error.message_with(_WORDS), FAILED)
    except EdgeLLMError as error:
        return _complain(str(error), FAILED)
    except (MemoryError, RuntimeError, ImportError, OSError) as error:
        return _complain(explain_error(error) or _write_error(error), FAILED)


def _write_error(error: BaseException) -> str:
    """The message for an OSError that nothing else handled; usually stdout could not be written."""
    if not isinstance(error, OSError):
        raise error
    _discard_stdout()
    full = error.filename is None or error.errno in _DISK_FULL
    advice = "make room, or write elsewhere" if full else "check that it is there, and its permissions"
    return f"{printable(str(error.filename or 'stdout'), 400)}: {error.strerror or error}; {advice}"


def _invoke(arguments: list[str]) -> int:
    # `cli.main` would use other exit codes and messages for Ctrl-C and a closed pipe.
    try:
        with cli.make_context("edgellm", arguments) as context:
            try:
                cli.invoke(context)
            except click.NoSuchOption as error:
                meant = closest_match(error.option_name, error.possibilities or ())
                near, where = [meant] if meant else None, error.ctx or context
                raise click.NoSuchOption(error.option_name, possibilities=near, ctx=where) from None
            except click.UsageError as error:
                error.ctx = error.ctx or context  # click leaves it out for an option without its value
                raise
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return 0


def _as_flag(message: str) -> str:
    """A message about an option with its name on the command line."""
    name, *rest = message.removeprefix("option ").split(" ", 1)
    if not message.startswith("option ") or not rest:
        return message
    return " ".join(["-n" if name == "max_tokens" else f"--{name.replace('_', '-')}", *rest])


def _complain(message: str, code: int) -> int:
    click.echo(f"edgellm: {printable(message, _LONGEST)}", err=True)
    return code


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that Python's flush at exit does not fail."""
    if sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
