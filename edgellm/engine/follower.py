"""What follows a sequence of a target model: it keeps the features that a head reads of each token."""

from typing import Protocol, Self

from edgellm.engine.outputs import Outputs


class Follower(Protocol):
    """Follows one sequence. Its methods copy at most some rows: they run where the sequence changes."""

    def computed(self, first: int, outputs: Outputs, rows: slice) -> None:
        """Tokens from position `first` on were computed; theirs are the given rows of a batch's outputs of all rows."""

    def trim(self, n: int) -> None:
        """The sequence has its first `n` tokens alone."""

    def restart(self) -> None:
        """The sequence has other tokens, whose features are not known."""

    def fork(self) -> Self:
        """A follower for a fork of the sequence."""
