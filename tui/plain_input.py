"""What is typed or piped into `--plain`: messages and commands, one after the other."""

import sys
from collections.abc import Iterable
from contextlib import suppress

import click

from edgellm.texts import LONGEST, decode

_QUOTES = '"""'


class Input:
    """Lines of stdin. On a terminal they can be edited and recalled; Ctrl-C drops what is typed, Ctrl-D ends them."""

    def __init__(self, history: Iterable[str]) -> None:
        self.live = bool(sys.stdin and sys.stdin.isatty())
        self._edited = self.live and bool(sys.stdout and sys.stdout.isatty())
        if self.live:
            sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
        if self._edited:
            _use_readline(history)

    def read(self) -> str | None:
        """A line, or all between two of three quotes; None at the end.

        Raises EdgeLLMError for what is no text, and KeyboardInterrupt where nothing is typed that it could drop.
        """
        lines = list[str]()
        try:
            line = self._line("> ")
            if line is None or line.strip() != _QUOTES:
                return line
            lines.append(line)
            while (line := self._line(". ")) is not None and line.strip() != _QUOTES:
                lines.append(line)
        except KeyboardInterrupt:
            if not self._edited or not (lines or _typed_so_far()):
                raise
            click.echo(err=True)
            return ""
        return "\n".join(lines[1:])

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


def _typed_so_far() -> str:
    """The line that was being edited, where Python has a readline."""
    with suppress(ImportError):
        import readline

        return readline.get_line_buffer()
    return ""


def _use_readline(history: Iterable[str]) -> None:
    """Have `input` edit and recall; where Python has no readline, the terminal's own keys remain."""
    with suppress(ImportError):
        import readline

        for text in history:
            if "\n" not in text:
                readline.add_history(text)
