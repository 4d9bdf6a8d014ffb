"""What is typed or piped into `--plain`: messages and commands, one after the other."""

import sys
from collections.abc import Iterable
from contextlib import suppress

import click

from edgellm.system.text_input import MAX_TEXT_BYTES, decode_input

_QUOTES = '"""'


class PlainInput:
    """Lines of stdin. On a terminal they can be edited and recalled.

    There Ctrl-D ends them, and Ctrl-C drops what is typed; where nothing is, it is for who reads.
    """

    def __init__(self, history: Iterable[str]) -> None:
        self.live = bool(sys.stdin and sys.stdin.isatty())
        self._edited = self.live and bool(sys.stdout and sys.stdout.isatty())
        self._begun = False
        if self.live:
            sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
        if self._edited:
            _use_readline(history)

    def read(self) -> str | None:
        """A line, or all between two of three quotes; an empty one for what Ctrl-C dropped; None at the end.

        Raises EdgeLLMError for what is no text, and KeyboardInterrupt where nothing is typed, or nobody can tell.
        """
        block: list[str] | None = None
        try:
            line = self._line("> ")
            if line is None or line.strip() != _QUOTES:
                return line
            block = []
            while (line := self._line(". ")) is not None and line.strip() != _QUOTES:
                block.append(line)
        except KeyboardInterrupt:
            if not self._edited or (block is None and not self._begun):
                raise
            return ""
        return "\n".join(block)

    def _line(self, prompt: str) -> str | None:
        line = self._typed(prompt) if self.live else self._piped()
        return line.rstrip("\r\n") if line else None

    def _typed(self, prompt: str) -> str:
        """A line with its end, empty when there are no more."""
        if not self._edited:
            click.echo(prompt, nl=False, err=True)
            return sys.stdin.readline()
        before = _edited_line() if _keeps_lines() else ""
        try:
            return f"{input(prompt)}\n"
        except EOFError:
            click.echo()  # what is said next, by the shell or here, begins a line
            return ""
        except KeyboardInterrupt:
            self._begun = _edited_line() not in ("", before)
            click.echo()
            raise

    def _piped(self) -> str:
        if not sys.stdin:
            return ""
        return decode_input(
            sys.stdin.buffer.readline(MAX_TEXT_BYTES + 1), "stdin", "give long texts as files, with /file"
        )


def _edited_line() -> str:
    """The line that is being edited, or was last, where Python has a readline."""
    with suppress(ImportError):
        import readline

        return readline.get_line_buffer()
    return ""


def _keeps_lines() -> bool:
    """Whether a line is still the edited one at the next prompt, until something is typed: with libedit (a Mac)."""
    with suppress(ImportError):
        import readline

        return "libedit" in (readline.__doc__ or "")
    return False


def _use_readline(history: Iterable[str]) -> None:
    """Have `input` edit and recall; where Python has no readline, the terminal's own keys remain."""
    with suppress(ImportError):
        import readline

        for text in history:
            if "\n" not in text:
                readline.add_history(text)
