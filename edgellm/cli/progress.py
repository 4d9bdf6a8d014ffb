"""Progress and warnings on stderr, alike for all commands."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Any, Self

import click

from edgellm.fmt import counted, printable
from edgellm.terminal.streams import end_line, write_control

_CLEARED = "\r\x1b[K"
_SHOW_PREFILL_AFTER_S = 0.5
_LONG_PROMPT = 256
_MAX_LENGTH = 4000
"""The maximum characters of a line."""


class ProgressLine:
    """A line of progress that overwrites itself on a terminal. Without a terminal, only compiling is reported.

    If `quiet`, nothing is written.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._live = bool(sys.stderr and sys.stderr.isatty()) and not quiet
        self._shown, self._announced = False, quiet
        self._since = monotonic()
        self._on = ""

    def compiling(self, done: int, total: int) -> None:
        """Show that `done` of `total` kernels are compiled, which happens once per machine and may take a while."""
        if self._on and done == total:
            self.working(self._on)
        elif self._live:
            self._line(f"compiling kernels for this CPU: {done} of {total}")
        elif not self._announced:
            self._announced = True
            click.echo(f"compiling {counted(total, 'kernel')} for this CPU", err=True)

    def uploading(self, done: int, total: int) -> None:
        """Show that `done` of `total` bytes of weights are on the GPU."""
        if self._live:
            self._line(f"to the GPU: {done / 1e9:.1f} of {total / 1e9:.1f} GB")

    def prefilling(self, done: int, total: int) -> None:
        """Show that `done` of `total` tokens of the prompt are read, unless that is quick."""
        if self._live and (total > _LONG_PROMPT or monotonic() - self._since > _SHOW_PREFILL_AFTER_S):
            self._line(f"reading the prompt: {done:,} of {total:,} tokens")

    def working(self, on: str) -> None:
        """Show what is being done; it stays shown after kernels were compiled."""
        self._on = on
        if self._live:
            self._line(on)

    def announce(self, text: str) -> None:
        """Write a line that stays."""
        self.clear()
        click.echo(text, err=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            self._shown = False
            write_control(_CLEARED)

    def _line(self, text: str) -> None:
        self._shown = True
        write_control(_CLEARED)
        click.echo(printable(text, _MAX_LENGTH), nl=False, err=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.clear()


@contextmanager
def show_warnings(quiet: bool = False) -> Iterator[None]:
    """Show each warning once, as one line on stderr without Python's source line; none if `quiet`."""
    shown = set[str]()

    def show(message: Any, *where: Any, **more: Any) -> None:
        if (note := str(message)) not in shown and not quiet:
            shown.add(note)
            if sys.stderr and sys.stderr.isatty() and not end_line():  # a reply stays, a line of progress does not
                write_control(_CLEARED)
            click.echo(f"edgellm: note: {printable(note, _MAX_LENGTH)}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield
