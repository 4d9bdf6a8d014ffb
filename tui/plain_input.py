"""What is typed or piped into `--plain`: messages and commands, one after the other."""

import sys
from collections.abc import Iterable
from contextlib import suppress

import click

from edgellm.texts import LONGEST, decode

_QUOTES = '"""'


class Input:
    """Lines of stdin. On a terminal they can be edited and recalled; Ctrl-D ends them, and Ctrl-C leaves."""

    def __init__(self, history: Iterable[str]) -> None:
        self.live = bool(sys.stdin and sys.stdin.isatty())
        self._edited = self.live and bool(sys.stdout and sys.stdout.isatty())
        if self.live:
            sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
        if self._edited:
            _use_readline(history)

    def read(self) -> str | None:
        """A line, or all between two of three quotes; None at the end. Raises EdgeLLMError for what is no text."""
        line = self._line("> ")
        if line is None or line.strip() != _QUOTES:
            return line
        lines = []
        while (line := self._line(". ")) is not None and line.strip() != _QUOTES:
            lines.append(line)
        return "\n".join(lines)

    def _line(self, prompt: str) -> str | None:
        line = self._typed(prompt) if self.live else self._piped()
        return line.rstrip("\r\n") if line else None

    def _typed(self, prompt: str) -> str:
        """A line with its end, empty when there are no more."""
        if not self._edited:
            click.echo(prompt, nl=False, err=True)
            return sys.stdin.readline()
        try:
            return f"{input(prompt)}\n"
        except EOFError:
            click.echo(err=True)  # what the shell says next begins a line
            return ""

    def _piped(self) -> str:
        if not sys.stdin:
            return ""
        return decode(sys.stdin.buffer.readline(LONGEST + 1), "stdin", "give long texts as files, with /file")


def _use_readline(history: Iterable[str]) -> None:
    """Have `input` edit and recall; where Python has no readline, the terminal's own keys remain."""
    with suppress(ImportError):
        import readline

        for text in history:
            if "\n" not in text:
                readline.add_history(text)
