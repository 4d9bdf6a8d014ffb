"""stdout, stderr and stdin of the command: no text does harm to a terminal, and no character ends the program."""

import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TextIO

_BEFORE = 3
"""Characters that decide what becomes of those behind them: as many accents as may be piled."""


class TerminalStream(TextIOWrapper):
    """Text for a terminal. What a terminal would act on is made harmless (`sanitize`), but for what `write_control` writes.

    Texts may come in pieces: an accent is piled upon those of the piece before, and a carriage return at the end is
    kept until it is known whether a line feed follows.
    """

    buffer = None  # type: ignore[assignment]  # click would write there where the encoding is ASCII

    def __init__(self, buffer: BufferedWriter, encoding: str, errors: str) -> None:
        super().__init__(buffer, encoding, errors, line_buffering=True)
        self._before = self._held = ""

    def write(self, text: str, /) -> int:
        """Write a text made harmless."""
        from edgellm.terminal.sanitize import sanitize

        whole = self._held + text
        ready = whole.removesuffix("\r")
        self._held = whole[len(ready) :]
        shown = sanitize(self._before + ready)[len(self._before) :]
        self._before = (self._before + shown)[-_BEFORE:]
        super().write(shown)
        return len(text)

    def write_control(self, text: str) -> None:
        """Write a text as it is, for the terminal to act on."""
        super().write(text)


def prepare_streams() -> None:
    """Have stdout and stderr replace what they cannot write, and stdin what it cannot read.

    Python's own end the program by an error there. Unbuffered, they also leave out what a pipe or a disk did not take
    at once.
    """
    sys.stdout, sys.stderr = _prepared(sys.stdout, "replace"), _prepared(sys.stderr, "backslashreplace")
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")


def _prepared(stream: TextIO, errors: str) -> TextIO:
    if not isinstance(stream, TextIOWrapper):  # None where it was closed
        return stream
    buffer = stream.buffer
    if not isinstance(buffer, BufferedWriter):
        buffer = BufferedWriter(FileIO(stream.fileno(), "w", closefd=False))
    if stream.isatty():
        return TerminalStream(buffer, stream.encoding, errors)
    if buffer is not stream.buffer:
        return TextIOWrapper(buffer, stream.encoding, errors, line_buffering=True)
    stream.reconfigure(errors=errors)
    return stream


def write(text: str, raw: bool = False) -> None:
    """Write to stdout at once; `raw`: as it is, to a terminal, too."""
    if out := sys.stdout:
        (out.write_control if raw and isinstance(out, TerminalStream) else out.write)(text)
        out.flush()


def write_control(text: str) -> None:
    """Write to stderr what a terminal is to act on."""
    if err := sys.stderr:
        (err.write_control if isinstance(err, TerminalStream) else err.write)(text)
        err.flush()
