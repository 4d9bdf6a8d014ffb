"""The angles of rotary position embedding, one table for all sequences."""

import numpy as np

from edgellm.arch.description import Rope
from edgellm.engine.memory import Placed
from edgellm.errors import NoMemoryError
from kquants.layout import PAGE


class Rotations:
    """Cosine and sine of each pair's angle, computed once for each position, a page of them at a time."""

    def __init__(self, rope: Rope) -> None:
        self._rope, self._known = rope, 0
        self._table = self._make(PAGE)

    def reach(self, count: int) -> Placed:
        """A table with the first `count` positions at least: float32 [room, rope_dim/2, 2]. Raises NoMemoryError.

        Those behind are undefined. A larger table takes the place of one that is full, so who uses one must hold it.
        """
        table = self._table
        if count > self._known:
            known = -(-count // PAGE) * PAGE
            if known > len(table.array):
                table = self._make(max(known, 2 * len(table.array)))
                table.array[: self._known] = self._table.array[: self._known]
            table.array[self._known : known] = self._rope.rotations(np.arange(self._known, known))
            self._table = table  # an interrupt between these two only lets a page be computed again
            self._known = known
        return table

    def _make(self, room: int) -> Placed:
        try:
            return Placed.of(np.empty((room, len(self._rope.frequencies), 2), np.float32))
        except MemoryError:
            raise NoMemoryError(
                f"no memory for the rotations of {room} tokens; shorten the conversation or choose a smaller --ctx"
            ) from None
