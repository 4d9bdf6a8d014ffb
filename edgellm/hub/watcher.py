"""What is told while files come."""


class Watcher:
    """Hears how far a pull is; this one says nothing."""

    def moved(self, done: int, total: int, came: int) -> None:
        """`done` of `total` bytes are here, `came` of them over the network in this run."""

    def checking(self, name: str) -> None:
        """A file is being read, to see whether it is right."""

    def waiting(self, why: str, seconds: float) -> None:
        """Something went wrong that may pass; the next attempt is in `seconds`."""
