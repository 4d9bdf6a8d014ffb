"""The angles of rotary position embedding, one table for all sequences."""

import numpy as np

from edgellm.arch.description import Rope
from edgellm.engine.budget import check_memory
from edgellm.engine.memory import AddressedArray
from edgellm.errors import EdgeLLMError
from kquants.kv_layout import PAGE


def table_bytes(rope: Rope, ctx: int) -> int:
    """Bytes of the table of a full context."""
    return _whole_pages(ctx) * 8 * len(rope.frequencies)


def _whole_pages(count: int) -> int:
    return -(-count // PAGE) * PAGE


class RopeTable:
    """Cosine and sine of each pair's angle for up to `ctx` positions, computed once, a page of them at a time."""

    def __init__(self, rope: Rope, ctx: int) -> None:
        self._rope, self._most, self._known = rope, _whole_pages(ctx), 0
        self._table = self._make(PAGE)

    def up_to(self, count: int) -> AddressedArray:
        """A table with the first `count` positions at least: float32 [room, rope_dim/2, 2].

        Those behind are undefined. A larger table takes the place of one that is full, so who uses one must hold it.
        Raises EdgeLLMError without memory.
        """
        if count > self._known:
            try:
                self._compute(_whole_pages(count))
            except MemoryError:
                raise EdgeLLMError(
                    f"no memory for the rotations of {count} tokens; shorten the conversation or choose a smaller --ctx"
                ) from None
        return self._table

    def _compute(self, known: int) -> None:
        table = self._table
        if known > len(table.array):
            table = self._make(max(known, min(2 * len(table.array), self._most)))
            table.array[: self._known] = self._table.array[: self._known]
        table.array[self._known : known] = self._rope.cos_sin(np.arange(self._known, known))
        self._table = table  # an interrupt between these two only lets a page be computed again
        self._known = known

    def _make(self, room: int) -> AddressedArray:
        check_memory(8 * room * len(self._rope.frequencies), "rotations", "choose a smaller --ctx")
        return AddressedArray.of(np.empty((room, len(self._rope.frequencies), 2), np.float32))
