"""What commands write alike: progress and notices on stderr."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Any, Self

import click

from edgellm.fmt import counted, printable
from edgellm.terminal.streams import write_control

_CLEARED = "\r\x1b[K"
_PATIENCE_S = 0.5
_LONG_PROMPT = 256
_LONGEST = 4000
"""Characters of a line that is not part of a text."""


class ProgressLine:
    """One line of progress that overwrites itself; without a terminal, only word of a first compilation.

    A `quiet` one writes nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._live = bool(sys.stderr and sys.stderr.isatty()) and not quiet
        self._shown, self._announced = False, quiet
        self._since = monotonic()
        self._on = ""

    def compiling(self, done: int, total: int) -> None:
        """Kernels are being compiled, which happens once per machine and can take a while; then work goes on."""
        if self._on and done == total:
            self.working(self._on)
        elif self._live:
            self._line(f"compiling kernels for this CPU: {done} of {total}")
        elif not self._announced:
            self._announced = True
            click.echo(f"compiling {counted(total, 'kernel')} for this CPU", err=True)

    def uploading(self, done: int, total: int) -> None:
        """Weights go to the GPU."""
        if self._live:
            self._line(f"to the GPU: {done / 1e9:.1f} of {total / 1e9:.1f} GB")

    def prefilling(self, done: int, total: int) -> None:
        """The prompt is being read; short ones are not worth a line."""
        if self._live and (total > _LONG_PROMPT or monotonic() - self._since > _PATIENCE_S):
            self._line(f"reading the prompt: {done:,} of {total:,} tokens")

    def working(self, on: str) -> None:
        """Something is being done that takes a while."""
        self._on = on
        if self._live:
            self._line(on)

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            self._shown = False
            write_control(_CLEARED)

    def _line(self, text: str) -> None:
        self._shown = True
        write_control(_CLEARED)
        click.echo(printable(text, _LONGEST), nl=False, err=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.clear()


@contextmanager
def show_warnings(quiet: bool = False) -> Iterator[None]:
    """Show warnings, each once, as a line on stderr instead of Python's two with a source line; or none if `quiet`."""
    shown = set[str]()

    def show(message: Any, *where: Any, **more: Any) -> None:
        if (note := str(message)) not in shown and not quiet:
            shown.add(note)
            if sys.stderr and sys.stderr.isatty():  # there may be a line of progress
                write_control(_CLEARED)
            click.echo(f"edgellm: note: {printable(note, _LONGEST)}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield
