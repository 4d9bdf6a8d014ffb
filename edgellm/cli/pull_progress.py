"""The progress of a download: an updated line on a terminal, else a line every 10 seconds."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import click

from edgellm.arch import ARCHITECTURES
from edgellm.cli.progress import ProgressLine
from edgellm.fmt import printable, size
from edgellm.hub import DownloadObserver, DownloadRate, Repository

_LIVE_S, _PLAIN_S = 0.1, 10.0


class PullDisplay(DownloadObserver):
    """Shows the events of a download on stderr."""

    def __init__(self, progress: ProgressLine) -> None:
        self._progress = progress
        self._live = bool(sys.stderr and sys.stderr.isatty())
        self._begin()

    def _begin(self) -> None:
        self._shown, self._rate, self._checked = monotonic(), DownloadRate(), ""

    def connecting(self, endpoint: str) -> None:
        """Show which hub is asked."""
        self._progress.working(f"asking {endpoint}")

    def resolved(self, repository: Repository) -> None:
        """Warn before the download of a model with an unsupported architecture, if the hub tells it."""
        self._progress.clear()
        if repository.architecture not in (None, *ARCHITECTURES):
            what = f"architecture {printable(str(repository.architecture))}"
            click.echo(f"edgellm: note: {what} is not supported; it may run with --engine llama.cpp", err=True)

    def starting(self, what: str, nbytes: int) -> None:
        """Show what is downloaded, and its size."""
        self._begin()
        self._progress.clear()
        click.echo(f"{what}, {size(nbytes)}", err=True)

    def progressed(self, done: int, total: int, received: int) -> None:
        """Show the share that is here, the rate and the time left, at most every 0.1 s, or 10 s without a terminal."""
        self._rate.progressed(done, total, received)
        now = monotonic()
        if now - self._shown < (_LIVE_S if self._live else _PLAIN_S):
            return
        self._shown, self._checked = now, ""
        self._say(str(self._rate))

    def verifying(self, name: str) -> None:
        """Show which file is read."""
        if name != self._checked:
            self._checked = name
            self._progress.working(f"checking {printable(name)}")

    def retrying(self, reason: str, seconds: float) -> None:
        """Show why, and for how long, the next attempt waits."""
        self._progress.clear()
        click.echo(f"{reason}; trying again in {seconds:.0f} s", err=True)

    def _say(self, line: str) -> None:
        if self._live:
            self._progress.working(line)
        else:
            click.echo(line, err=True)


@contextmanager
def resume_hint() -> Iterator[None]:
    """Say on Ctrl-C that the next pull resumes."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("stopped; the downloaded bytes are kept, and the same command resumes", err=True)
        raise
