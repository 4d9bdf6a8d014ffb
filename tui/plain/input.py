"""The input of `--plain`: messages and commands, typed or piped."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from io import StringIO

import click

from edgellm.system.text_input import MAX_TEXT_BYTES, decode_input
from tui.early_input import waiting_input

_QUOTES = '"""'


class PlainInput:
    """Reads stdin by lines. On a terminal, lines can be edited and recalled.

    There Ctrl-D ends the input. Ctrl-C drops the line that is typed; on an empty line it raises KeyboardInterrupt.
    """

    def __init__(self, history: Iterable[str]) -> None:
        self.is_terminal = bool(sys.stdin and sys.stdin.isatty())
        self._edited = self.is_terminal and bool(sys.stdout and sys.stdout.isatty())
        self._begun = False
        self._early: list[str] = []  # lines that were typed before `read` asked for them; the last may lack its end
        if self.is_terminal:
            sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
        if self._edited:
            _use_readline(history)

    def read(self) -> str | None:
        """A line, or the lines between two lines of three quotes. Empty after Ctrl-C dropped it; None at the end.

        Raises EdgeLLMError for bytes that are no text. Raises KeyboardInterrupt for Ctrl-C on an empty line, or where
        Python cannot tell whether the line is empty.
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

    def is_early(self) -> bool:
        """Whether the next line was typed already, by somebody who did not see what it would answer. It stays."""
        if self.is_terminal and sys.stdin:
            with suppress(OSError):  # the terminal is gone, which `read` finds
                self._early += StringIO(waiting_input(sys.stdin.fileno()))
        return bool(self._early)

    def _line(self, prompt: str) -> str | None:
        early = self._early.pop(0) if self._early else ""
        if early.endswith("\n"):
            return early.rstrip("\r\n")
        line = early + (self._typed(prompt + early) if self.is_terminal else self._piped())
        return line.rstrip("\r\n") if line else None

    def _typed(self, prompt: str) -> str:
        """A line with its line end; empty at the end of the input."""
        if not self._edited:
            click.echo(prompt, nl=False, err=True)
            return sys.stdin.readline()
        before = _edited_line() if _repeats_lines() else ""
        try:
            return f"{input(prompt)}\n"
        except EOFError:
            click.echo()  # the next output begins a line
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
    """The line that is edited now or was edited last; empty where Python has no readline."""
    with suppress(ImportError):
        import readline

        return readline.get_line_buffer()
    return ""


def _repeats_lines() -> bool:
    """Whether the edited line of the last prompt stays until a key is pressed, as with libedit (macOS)."""
    with suppress(ImportError):
        import readline

        return "libedit" in (readline.__doc__ or "")
    return False


def _use_readline(history: Iterable[str]) -> None:
    """Make `input` edit and recall lines, where Python has readline."""
    with suppress(ImportError):
        import readline

        for text in history:
            if "\n" not in text:
                readline.add_history(text)
