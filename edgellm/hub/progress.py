"""A pull that another thread looks at, and may stop."""

from threading import Event
from time import monotonic

from edgellm.fmt import printable
from edgellm.hub.listing import Repository
from edgellm.hub.observer import DownloadObserver
from edgellm.hub.rate import DownloadRate


class StoppedError(Exception):
    """The pull was stopped; what has come is kept."""


class PullProgress(DownloadObserver):
    """Keeps what it hears; once `stop` is set it raises StoppedError, which ends the pull.

    `architecture` is that of the repository's files, as soon as it is known.
    """

    def __init__(self, stop: Event) -> None:
        self._stop = stop
        self._doing, self._until = "", 0.0
        self._rate: DownloadRate | None = None
        self.architecture: str | None = None

    @property
    def share(self) -> float | None:
        """How much is here, from 0 to 1; None while that is not known."""
        return self._rate.share if self._rate else None

    def __str__(self) -> str:
        """What is being done, and how far it is."""
        if left := max(0.0, self._until - monotonic()):
            return f"{self._doing}; trying again in {left:.0f} s"
        return self._doing or str(self._rate or "")

    def connecting(self, endpoint: str) -> None:
        """The hub is asked."""
        self._now(f"asking {endpoint}")

    def resolved(self, repository: Repository) -> None:
        """It knows the repository."""
        self.architecture = repository.architecture

    def starting(self, what: str, nbytes: int) -> None:
        """Files are about to come."""
        self._rate = DownloadRate()
        self._now()

    def progressed(self, done: int, total: int, came: int) -> None:
        """More of them is here."""
        if self._rate:
            self._rate.progressed(done, total, came)
        self._now()

    def verifying(self, name: str) -> None:
        """A file is read."""
        self._now(f"checking {printable(name)}")

    def retrying(self, reason: str, seconds: float) -> None:
        """The next attempt is later."""
        self._until = monotonic() + seconds
        self._now(reason)

    def sleep(self, seconds: float) -> None:
        """Wait, unless it is stopped meanwhile."""
        self._stop.wait(seconds)
        self._now()

    def _now(self, doing: str = "") -> None:
        self._doing = doing
        if self._stop.is_set():
            raise StoppedError
