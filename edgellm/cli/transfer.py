"""How far a download is: a moving line with rate and time left on a terminal, elsewhere a line at times."""

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import click

from edgellm.cli.conversion import clock
from edgellm.cli.screen import Progress
from edgellm.gguf.printable import printable, size
from edgellm.hub import Watcher

_LIVE_S, _PLAIN_S = 0.1, 10.0
_WINDOW_S = 5.0


class Transfer(Watcher):
    """Shows what it hears; the rate is that of the last seconds."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._live = bool(sys.stderr and sys.stderr.isatty())
        self._begin()

    def _begin(self) -> None:
        self._shown = monotonic()
        self._recent = deque([(self._shown, 0)])

    def coming(self, what: str, nbytes: int) -> None:
        """Say what comes."""
        self._begin()
        self._progress.clear()
        click.echo(f"{what}, {size(nbytes)}", err=True)

    def moved(self, done: int, total: int, came: int) -> None:
        """Show the bytes that are here, the rate and what is left, not too often."""
        now = monotonic()
        self._recent.append((now, came))
        while len(self._recent) > 2 and now - self._recent[0][0] > _WINDOW_S:
            self._recent.popleft()
        if now - self._shown < (_LIVE_S if self._live else _PLAIN_S):
            return
        self._shown = now
        since, before = self._recent[0]
        rate = (came - before) / max(now - since, 1e-9)
        left = f"{clock((total - done) / rate)} left" if rate else "waiting"
        self._say(f"{done / max(1, total):.0%} of {size(total)} · {size(rate)}/s · {left}")

    def checking(self, name: str) -> None:
        """Show what is read."""
        self._progress.working(f"checking {printable(name)}")

    def waiting(self, why: str, seconds: float) -> None:
        """Say what is waited for."""
        self._progress.clear()
        click.echo(f"{why}; trying again in {seconds:.0f} s", err=True)

    def _say(self, line: str) -> None:
        if self._live:
            self._progress.working(line)
        else:
            click.echo(line, err=True)


@contextmanager
def stopping() -> Iterator[None]:
    """Say on Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("stopped; what has come is kept, and the same command goes on with it", err=True)
        raise
