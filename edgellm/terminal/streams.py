"""stdout, stderr and stdin of the command: text is sanitized for a terminal, and no character raises an error."""

import os
import re
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TextIO

_BEFORE = 3
"""The number of written characters that matter for the next ones: the combining marks that a character may have."""

_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")


class TerminalStream(TextIOWrapper):
    """A stream to a terminal. `write` sanitizes text; `write_control` does not.

    Text may come in pieces: combining marks are counted across pieces, and a carriage return at the end of a piece is
    held until the next character is known, which may be a line feed.
    """

    buffer = None  # type: ignore[assignment]  # click would write there where the encoding is ASCII

    def __init__(self, buffer: BufferedWriter, encoding: str, errors: str) -> None:
        super().__init__(buffer, encoding, errors, line_buffering=True)
        self._before = self._held = ""

    def write(self, text: str, /) -> int:
        """Write sanitized text."""
        from edgellm.terminal.sanitize import sanitize

        pending = self._held + text
        ready = pending.removesuffix("\r")
        self._held = pending[len(ready) :]
        shown = sanitize(self._before + ready)[len(self._before) :]
        self._before = (self._before + shown)[-_BEFORE:]
        super().write(shown)
        return len(text)

    def write_control(self, text: str) -> None:
        """Write control sequences, unchanged."""
        super().write(text)

    @property
    def is_amid_line(self) -> bool:
        """Whether sanitized text was written last, and no line end behind it."""
        return bool(self._before) and not self._before.endswith("\n")


def prepare_streams() -> None:
    """Let stdout, stderr and stdin replace characters that cannot be encoded or decoded.

    Python's own streams raise an error for them. If they are unbuffered, they also lose text that a pipe or a disk does
    not take at once.
    """
    sys.stdout, sys.stderr = _prepared(sys.stdout, "replace"), _prepared(sys.stderr, "backslashreplace")
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")


def _prepared(stream: TextIO, errors: str) -> TextIO:
    if not isinstance(stream, TextIOWrapper):  # None if it was closed
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
    """Write to stdout and flush it. `raw`: also to a terminal without sanitizing."""
    if out := sys.stdout:
        (out.write_control if raw and isinstance(out, TerminalStream) else out.write)(text)
        out.flush()


def end_line() -> bool:
    """End the line on a terminal at stdout, if text stands in it. Returns whether one did."""
    out = sys.stdout
    if not (isinstance(out, TerminalStream) and out.is_amid_line):
        return False
    out.write("\n")
    out.flush()
    return True


def write_styled(text: str) -> None:
    """Write a text with the colours of `click.style` to stdout, sanitized for a terminal.

    A file or a pipe gets no colours, nor does a terminal if NO_COLOR is set.
    """
    if not (out := sys.stdout):
        return
    for place, part in enumerate(_STYLE.split(text)):
        if place % 2 == 0:
            out.write(part)
        elif isinstance(out, TerminalStream) and not os.environ.get("NO_COLOR"):
            out.write_control(part)
    out.flush()


def plus_minus() -> str:
    """The sign before a standard error: ± if stdout can encode it, else +-."""
    try:
        "±".encode((sys.stdout and sys.stdout.encoding) or "ascii")
    except (LookupError, UnicodeEncodeError):
        return "+-"
    return "±"


def write_control(text: str) -> None:
    """Write control sequences to stderr."""
    if err := sys.stderr:
        (err.write_control if isinstance(err, TerminalStream) else err.write)(text)
        err.flush()
