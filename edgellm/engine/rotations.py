"""The angles of rotary position embedding, one table for all sequences."""

import numpy as np
from numpy.typing import NDArray

from edgellm.arch.description import Rope
from edgellm.errors import NoMemoryError
from kquants.layout import PAGE


class Rotations:
    """Cosine and sine of each pair's angle, computed once for each position, a page of them at a time.

    `table` float32 [room, rope_dim/2, 2] lies at `address`; positions that `reach` was not asked for are undefined. A
    larger table takes the place of one that is full, so who uses one must hold it.
    """

    def __init__(self, rope: Rope) -> None:
        self._rope, self._known = rope, 0
        self._make(PAGE)

    def reach(self, count: int) -> None:
        """Have the first `count` positions in the table. Raises NoMemoryError."""
        if count <= self._known:
            return
        known, before = -(-count // PAGE) * PAGE, self.table
        if known > len(before):
            self._make(max(known, 2 * len(before)))
            self.table[: self._known] = before[: self._known]
        self.table[self._known : known] = self._rope.rotations(np.arange(self._known, known))
        self._known = known

    def _make(self, room: int) -> None:
        try:
            self.table: NDArray[np.float32] = np.empty((room, len(self._rope.frequencies), 2), np.float32)
        except MemoryError:
            raise NoMemoryError(
                f"no memory for the rotations of {room} tokens; shorten the conversation or choose a smaller --ctx"
            ) from None
        self.address = int(self.table.ctypes.data)
