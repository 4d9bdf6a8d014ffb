"""What `--plain` writes: replies alone to stdout, all else to stderr."""

import sys

import click

from tui.core.titles import with_joiners


class PlainOutput:
    """Nothing that a terminal would act on gets to one. `failed` tells whether an error was said."""

    def __init__(self) -> None:
        self.failed = False
        self._shown = 0
        self._on_screen = bool(sys.stdout and sys.stdout.isatty())
        if sys.stdout:
            sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]

    def reply(self, text: str) -> None:
        """Write what is new of a reply that has come so far."""
        new, self._shown = text[self._shown :], len(text)
        if new:
            click.echo(with_joiners(new) if self._on_screen else new, nl=False)

    def end(self, text: str) -> None:
        """Write the rest of a reply, and end its line if it has one."""
        self.reply(text)
        self._shown = 0
        if text:
            click.echo()

    def say(self, text: str, severity: str = "information") -> None:
        """Lines on stderr."""
        wrong = severity == "error"
        self.failed |= wrong
        if text:
            click.echo(with_joiners(f"edgellm: {text}" if wrong else text), err=True)
