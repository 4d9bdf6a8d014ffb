"""The output of `--plain`: replies go to stdout, all else to stderr."""

import sys

import click

from edgellm.terminal.streams import end_line
from tui.core.titles import with_joiners


class PlainOutput:
    """Writes no control characters to a terminal. `failed` is true once an error was written."""

    def __init__(self) -> None:
        self.failed = False
        self._shown = 0
        self._on_screen = bool(sys.stdout and sys.stdout.isatty())
        if sys.stdout:
            sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]

    def reply(self, text: str) -> None:
        """Write the new part of a reply; `text` is the whole reply so far."""
        new, self._shown = text[self._shown :], len(text)
        if new:
            click.echo(with_joiners(new) if self._on_screen else new, nl=False)

    def end(self, text: str) -> None:
        """Write the rest of a reply and, unless it is empty, a line end."""
        self.reply(text)
        self._shown = 0
        if text:
            click.echo()

    def say(self, text: str, severity: str = "information") -> None:
        """Write lines to stderr."""
        is_error = severity == "error"
        self.failed |= is_error
        if self._shown:  # a reply is being written
            end_line()
        if text:
            click.echo(with_joiners(f"edgellm: {text}" if is_error else text), err=True)
