"""The progress of `edgellm convert` and `edgellm quantize`."""

import sys
from time import monotonic
from typing import TYPE_CHECKING

import click

from edgellm.cli.progress import ProgressLine
from edgellm.cli.text_file import time_left
from edgellm.fmt import counted

if TYPE_CHECKING:
    from converters.gptq.compensation import ReadingProgress

_LIVE_S, _PLAIN_S = 0.1, 10.0


class ConversionProgress:
    """Shows the share done, the rate and the time left: an updated line on a terminal, else a line every 10 s.

    A line with the `task` comes before, if it is given.
    """

    def __init__(self, progress: ProgressLine, task: str = "") -> None:
        self._progress, self._task = progress, task
        self._live = bool(sys.stderr and sys.stderr.isatty())
        self._since = self._shown = 0.0
        self._first = 0

    def __call__(self, done: int, total: int) -> None:
        """Report that `done` of `total` weights are written."""
        now = monotonic()
        if not self._since:  # the first chunk; the time before it was spent compiling
            self._since = self._shown = now
            self._first = done
            if self._task:
                self._progress.announce(self._task)
        if now - self._shown < (_LIVE_S if self._live else _PLAIN_S):
            return
        self._shown = now
        rate = (done - self._first) / (now - self._since)
        left = time_left(now - self._since, done - self._first, total - self._first)
        line = f"{done / total:.0%} of {_millions(total)} weights · {_millions(rate)}/s · {left}"
        if self._live:
            self._progress.working(line)
        else:
            click.echo(line, err=True)


class TextProgress:
    """Shows how much of the text of --gptq the model has read, and the time left for it: a line on a terminal."""

    def __init__(self, progress: ProgressLine) -> None:
        self._progress, self._since = progress, monotonic()

    def __call__(self, so_far: "ReadingProgress") -> None:
        """Report what is read."""
        if not so_far.chunks:
            if so_far.number == 1:
                self._since = monotonic()
                again = f", {so_far.passes} times, as not all Hessians fit the memory" if so_far.passes > 1 else ""
                self._progress.announce(f"the model reads {counted(so_far.of, 'chunk')} of text{again}")
            return
        done = (so_far.number - 1) * so_far.of + so_far.chunks
        left = time_left(monotonic() - self._since, done, so_far.passes * so_far.of)
        part = f"pass {so_far.number} of {so_far.passes}, " if so_far.passes > 1 else ""
        self._progress.working(f"{part}{so_far.chunks:,} of {so_far.of:,} chunks of text · {left}")


class MeasuringProgress:
    """Shows how many tensors of `--type dynamic` are measured, and the time left."""

    def __init__(self, progress: ProgressLine) -> None:
        self._progress, self._since = progress, 0.0

    def __call__(self, done: int, total: int) -> None:
        """Report that `done` of `total` tensors are measured."""
        if not done:
            self._since = monotonic()
            self._progress.announce(f"measuring {counted(total, 'tensor')} on the text")
        else:
            left = time_left(monotonic() - self._since, done, total)
            self._progress.working(f"{done} of {total} tensors measured · {left}")


def _millions(weights: float) -> str:
    return f"{weights / 1e6:,.{0 if weights >= 1e8 else 1}f} M"
