"""The events of a download."""

from time import sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgellm.hub.listing import Repository


class DownloadObserver:
    """Hears the events of a download; this one ignores them.

    An exception that a method raises ends the download. The bytes that arrived stay, and the next pull resumes.
    """

    def connecting(self, endpoint: str) -> None:
        """The hub at `endpoint` is asked for a listing."""

    def resolved(self, repository: "Repository") -> None:
        """The hub has the repository, and the model is not on this machine."""

    def starting(self, what: str, nbytes: int) -> None:
        """A download of `what` begins: `nbytes` in total, with those that are here already."""

    def progressed(self, done: int, total: int, received: int) -> None:
        """`done` of `total` bytes are here; `received` of them came over the network in this run."""

    def verifying(self, name: str) -> None:
        """A file is read and hashed or checked; called again and again for a long one."""

    def retrying(self, reason: str, seconds: float) -> None:
        """A failure that may pass; the next attempt is in `seconds`."""

    def sleep(self, seconds: float) -> None:
        """Wait before the next attempt."""
        sleep(seconds)
