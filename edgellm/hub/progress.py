"""The progress of a download that another thread shows, and may stop."""

from threading import Event
from time import monotonic

from edgellm.fmt import printable
from edgellm.hub.listing import Repository
from edgellm.hub.observer import DownloadObserver
from edgellm.hub.rate import DownloadRate


class StoppedError(Exception):
    """The download was stopped; the bytes that arrived are kept."""


class PullProgress(DownloadObserver):
    """Keeps the state of a download. Once `stop` is set, the next event raises StoppedError, which ends the download.

    `architecture` is that of the repository's GGUF files; None until it is known.
    """

    def __init__(self, stop: Event) -> None:
        self._stop = stop
        self._doing, self._until = "", 0.0
        self._rate: DownloadRate | None = None
        self.architecture: str | None = None

    @property
    def share(self) -> float | None:
        """The share of the bytes that is here, from 0 to 1; None while it is not known."""
        return self._rate.share if self._rate else None

    def __str__(self) -> str:
        """For a user: what happens now, or the progress."""
        if left := max(0.0, self._until - monotonic()):
            return f"{self._doing}; trying again in {left:.0f} s"
        return self._doing or str(self._rate or "")

    def connecting(self, endpoint: str) -> None:
        """Show which hub is asked."""
        self._now(f"asking {endpoint}")

    def resolved(self, repository: Repository) -> None:
        """Keep the architecture."""
        self.architecture = repository.architecture

    def starting(self, what: str, nbytes: int) -> None:
        """Start to measure the rate."""
        self._rate = DownloadRate()
        self._now()

    def progressed(self, done: int, total: int, received: int) -> None:
        """Update the rate."""
        if self._rate:
            self._rate.progressed(done, total, received)
        self._now()

    def verifying(self, name: str) -> None:
        """Show which file is read."""
        self._now(f"checking {printable(name)}")

    def retrying(self, reason: str, seconds: float) -> None:
        """Show why and for how long it waits."""
        self._until = monotonic() + seconds
        self._now(reason)

    def sleep(self, seconds: float) -> None:
        """Wait, until `stop` is set at the latest."""
        self._stop.wait(seconds)
        self._now()

    def _now(self, doing: str = "") -> None:
        self._doing = doing
        if self._stop.is_set():
            raise StoppedError
