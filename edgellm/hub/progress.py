"""A pull that another thread looks at, and may stop."""

from threading import Event
from time import monotonic

from edgellm.fmt import printable
from edgellm.hub.listing import Repository
from edgellm.hub.rate import Pace
from edgellm.hub.watcher import Watcher


class StoppedError(Exception):
    """The pull was stopped; what has come is kept."""


class Follower(Watcher):
    """Keeps what it hears; once `stop` is set it raises StoppedError, which ends the pull.

    `architecture` is that of the repository's files, as soon as it is known.
    """

    def __init__(self, stop: Event) -> None:
        self._stop = stop
        self._doing, self._until = "", 0.0
        self._pace: Pace | None = None
        self.architecture: str | None = None

    @property
    def share(self) -> float | None:
        """How much is here, from 0 to 1; None while that is not known."""
        return self._pace.share if self._pace else None

    def __str__(self) -> str:
        """What is being done, and how far it is."""
        if left := max(0.0, self._until - monotonic()):
            return f"{self._doing}; trying again in {left:.0f} s"
        return self._doing or str(self._pace or "")

    def asking(self, endpoint: str) -> None:
        """The hub is asked."""
        self._now(f"asking {endpoint}")

    def found(self, repository: Repository) -> None:
        """It knows the repository."""
        self.architecture = repository.architecture

    def coming(self, what: str, nbytes: int) -> None:
        """Files are about to come."""
        self._pace = Pace()
        self._now()

    def moved(self, done: int, total: int, came: int) -> None:
        """More of them is here."""
        if self._pace:
            self._pace.moved(done, total, came)
        self._now()

    def checking(self, name: str) -> None:
        """A file is read."""
        self._now(f"checking {printable(name)}")

    def waiting(self, why: str, seconds: float) -> None:
        """The next attempt is later."""
        self._until = monotonic() + seconds
        self._now(why)

    def pause(self, seconds: float) -> None:
        """Wait, unless it is stopped meanwhile."""
        self._stop.wait(seconds)
        self._now()

    def _now(self, doing: str = "") -> None:
        self._doing = doing
        if self._stop.is_set():
            raise StoppedError
