"""The `edgellm` command. Each subcommand is a module here, imported only when it is called."""

import os
import signal
import sys
from importlib import import_module

import click

from edgellm import __version__
from edgellm.errors import EdgeLLMError, OptionError

COMMANDS = {
    "generate": "Stream a completion of a prompt to stdout.",
    "info": "Show what is in a model file.",
    "tokenize": "Turn text from stdin into token ids, or back.",
    "verify": "Check that a model file is whole.",
}


class LazyGroup(click.Group):
    """Knows its commands by name and one-line help; imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in alphabetical order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command object out of its module, `edgellm.cli.NAME`."""
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"edgellm.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", message="edgellm %(version)s")
def cli() -> None:
    """Run GGUF language models on this machine, fast, from Python."""


def main() -> None:
    """Run the command line and leave with the documented exit code, never with a traceback.

    0 done, 1 an error its message explains, 2 wrong usage, 130 interrupted, 141 the pipe was closed.
    """
    sys.exit(run())


def run() -> int:
    """Run the command line; return its exit code."""
    try:
        # What a command passes to `Context.exit` comes back as the result.
        code: int | None = cli.main(standalone_mode=False)
        sys.stdout.flush()
        return code or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # Python would complain once more when it flushes stdout at exit: give it somewhere to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    except EdgeLLMError as error:
        click.echo(f"edgellm: {error}", err=True)
        return 2 if isinstance(error, OptionError) else 1
