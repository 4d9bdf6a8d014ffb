"""The `edgellm` command. Each subcommand is a module of its name, imported only when it is called.

group                         the commands, imported by name
guide_options, tool_options   the options of forms and of tools
options, prompt_input         click options; those of models and generation are made from `edgellm.options`
aliases, unsupported          commands and options of other programs
progress, pull_progress       progress on stderr
generate_output               what `generate` writes
conversion, output_path       what `convert` and `quantize` share
batch_report                  what `batch` tells
bench_report                  the report of `bench`
eval_options, eval_run, eval_report   the parts of `eval`
shell_completion              completion in shells
"""

import errno
import os
import re
import sys

import click

from edgellm import __version__
from edgellm.cli.group import LazyGroup
from edgellm.cli.shell_completion import VARIABLE, answer
from edgellm.errors import AdvisedError, EdgeLLMError, OptionError
from edgellm.exit_codes import FAILED, INTERRUPTED, PIPE_CLOSED, WRONG_USAGE
from edgellm.fmt import printable, shown_path
from edgellm.options.aliases import closest_match
from edgellm.system.os_errors import explain_error

_MAX_LENGTH = 4000
"""The maximum characters of an error: a message with a path or two."""

_OPTION = re.compile(r"\boption (\w+)\b")

_FLAGS = {"max_tokens": "-n", "choices": "--choice"}
"""Names of options on the command line that are others than in Python."""

_WORDS = {
    "ctx": "--ctx",
    "max_tokens": "-n",
    "overflow": "--overflow drop or window",
    "partial": "--partial",
    "prompt": "some text with -p",
}
"""The words for settings in advice."""

_DISK_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


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
    except AdvisedError as error:
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
    return f"{shown_path(error.filename or 'stdout')}: {error.strerror or error}; {advice}"


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
    """A message; if it begins with an option, with all options in it under their names on the command line."""
    return _OPTION.sub(_flag, message) if message.startswith("option ") else message


def _flag(option: re.Match[str]) -> str:
    return _FLAGS.get(option[1]) or f"--{option[1].replace('_', '-')}"


def _complain(message: str, code: int) -> int:
    click.echo(f"edgellm: {printable(message, _MAX_LENGTH)}", err=True)
    return code


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that Python's flush at exit does not fail."""
    if sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
