"""The features that a head reads of the batches of its target: how they are taken, and how many rows of them wait."""

from collections.abc import Sequence as Ids
from contextlib import suppress
from weakref import WeakSet

import numpy as np

from edgellm.engine.follower import Follower
from edgellm.engine.outputs import Floats, Outputs

_MOST_ROWS, _MOST_BYTES = 1024, 32 << 20
"""The most rows that wait for a sequence, and bytes of those of all sequences: of a longer text a head sees the end."""


def most_waiting(row_bytes: int, sequences: int = 1) -> int:
    """The most rows that wait for each of `sequences` sequences, where a row has `row_bytes` bytes."""
    return max(1, min(_MOST_ROWS, _MOST_BYTES // (row_bytes * sequences)))


class FeatureRows:
    """What the followers of all sequences of a target share. A row has `width` values, float32.

    Features are the target's states behind the layers `taps`, side by side, or without taps those behind its last norm.
    """

    def __init__(self, taps: Ids[int], width: int) -> None:
        self.width, self._taps, self.are_wanted = width, taps, True
        self._followers = WeakSet[Follower]()

    def share_with(self, follower: Follower) -> None:
        """Have one more follower, until it is not used any more."""
        self._followers.add(follower)

    @property
    def most(self) -> int:
        """The most rows that wait for a sequence now. One that has more drops them with its next batch."""
        return most_waiting(4 * self.width, len(self._followers))

    def of(self, outputs: Outputs, rows: slice) -> list[Floats]:
        """A copy of each of some rows of the target's outputs: a view of one would keep those of its whole batch."""
        if self._taps:
            found = np.concatenate([outputs.taps[layer][rows] for layer in self._taps], axis=1)
        else:
            assert outputs.all_hidden is not None, "the target keeps no states of all rows"
            found = outputs.all_hidden[rows]
        return [row.copy() for row in found]

    def end(self) -> None:
        """Nothing reads features any more: followers drop theirs, and take none."""
        self.are_wanted = False
        for follower in self._all():
            follower.restart()

    def _all(self) -> list[Follower]:
        while True:
            with suppress(RuntimeError):  # a set changed while it was read: other threads make sequences and drop them
                return list(self._followers)
