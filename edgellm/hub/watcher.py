"""What is told while files come."""


class Watcher:
    """Hears how far a pull is; this one says nothing."""

    def coming(self, what: str, nbytes: int) -> None:
        """Files of so many bytes are about to come, as far as they are not here."""

    def moved(self, done: int, total: int, came: int) -> None:
        """`done` of `total` bytes are here, `came` of them over the network in this run."""

    def checking(self, name: str) -> None:
        """A file is being read, to see whether it is right."""

    def waiting(self, why: str, seconds: float) -> None:
        """Something went wrong that may pass; the next attempt is in `seconds`."""
