"""The commands of `edgellm`: their names and one-line help, and the group that imports a command only to run it."""

import shlex
from importlib import import_module
from typing import TYPE_CHECKING

import click

from edgellm.cli import aliases
from edgellm.fmt import printable
from edgellm.options.aliases import closest_match
from edgellm.system.shadowing import check_not_shadowed

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "batch": "Answer a file of requests, many at once.",
    "bench": "Measure how fast a model runs here.",
    "chat": "Talk with a model in the terminal.",
    "completion": "Print a script that completes commands in a shell.",
    "convert": "Make a GGUF file from a Hugging Face checkpoint.",
    "devices": "List the CPU and the GPUs of this machine.",
    "eval": "Measure how often a model's replies are right.",
    "generate": "Stream the reply to a prompt to stdout.",
    "imatrix": "Measure which weights matter, for quantization.",
    "info": "Show what is in a model file.",
    "list": "List the models on this machine.",
    "perplexity": "Measure how well a model predicts a text.",
    "plan": "Predict the memory and the speed of a model.",
    "pull": "Download a model from Hugging Face.",
    "quantize": "Make a smaller GGUF file from a GGUF file.",
    "rm": "Remove models that were pulled.",
    "serve": "Serve models over HTTP, as OpenAI, Anthropic and ollama do.",
    "tokenize": "Turn text from stdin into token ids, or back.",
    "verify": "Check that a model file is complete and valid.",
}

_PACKAGES = {"chat": ("tui",), **dict.fromkeys(("batch", "convert", "imatrix", "quantize"), ("converters",))}
"""The packages beside edgellm that a command imports."""


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
    if _is_model(name):
        ctx.fail(f"a command goes before the model: edgellm chat {shlex.quote(printable(name, 400))}")
    if meant := closest_match(name, [*COMMANDS, *aliases.COMMAND_ALIASES]):
        ctx.fail(f"No such command '{printable(name)}'; did you mean {aliases.COMMAND_ALIASES.get(meant, meant)}?")


def _is_model(name: str) -> bool:
    """Whether a word is a file, ORG/NAME or the name of a model on this machine."""
    from edgellm.models.names import unique_names  # look through folders
    from edgellm.models.stores import stored_models

    return "/" in name or name.lower().endswith(".gguf") or name in unique_names(stored_models())


def _help(ctx: click.Context, words: list[str]) -> None:
    if not words:
        click.echo(ctx.get_help())
    elif found := ctx.command.resolve_command(ctx, words)[1]:  # type: ignore[attr-defined]
        with click.Context(found, ctx, found.name) as context:
            click.echo(context.get_help())
    ctx.exit()
