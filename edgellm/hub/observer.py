"""What is told while files come."""

from time import sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgellm.hub.listing import Repository


class DownloadObserver:
    """Hears how far a pull is; this one says nothing.

    What a method raises ends the pull; all that has come stays, and the next pull goes on with it.
    """

    def connecting(self, endpoint: str) -> None:
        """The hub at this address is asked what it has."""

    def resolved(self, repository: "Repository") -> None:
        """The hub has the repository, and the model that is wanted of it is not here."""

    def starting(self, what: str, nbytes: int) -> None:
        """Files of so many bytes are about to come, as far as they are not here."""

    def progressed(self, done: int, total: int, came: int) -> None:
        """`done` of `total` bytes are here, `came` of them over the network in this run."""

    def verifying(self, name: str) -> None:
        """A file is being read, to see whether it is right; told again while a long one is."""

    def retrying(self, reason: str, seconds: float) -> None:
        """Something went wrong that may pass; the next attempt is in `seconds`."""

    def sleep(self, seconds: float) -> None:
        """Let the time before the next attempt pass."""
        sleep(seconds)
