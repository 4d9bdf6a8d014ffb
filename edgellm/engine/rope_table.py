"""The RoPE table: the angles of all positions, one table for all sequences."""

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
    """Cosine and sine of each pair's angle at up to `ctx` positions, computed once, PAGE positions at a time."""

    def __init__(self, rope: Rope, ctx: int) -> None:
        self._rope, self._capacity, self._computed = rope, _whole_pages(ctx), 0
        self._table = self._allocate(PAGE)

    def up_to(self, count: int) -> AddressedArray:
        """A table with at least the first `count` positions: float32 [room, rope_dim/2, 2]; the others are undefined.

        A full table is replaced by a larger one, so its users must hold it. Raises EdgeLLMError without memory.
        """
        if count > self._computed:
            try:
                self._compute(_whole_pages(count))
            except MemoryError:
                raise EdgeLLMError(
                    f"no memory for a RoPE table of {count} rows; shorten the conversation or choose a smaller --ctx"
                ) from None
        return self._table

    def _compute(self, count: int) -> None:
        table = self._table
        if count > len(table.array):
            table = self._allocate(max(count, min(2 * len(table.array), self._capacity)))
            table.array[: self._computed] = self._table.array[: self._computed]
        table.array[self._computed : count] = self._rope.cos_sin(np.arange(self._computed, count))
        self._table = table  # after an interrupt between these two lines, a page is computed again
        self._computed = count

    def _allocate(self, room: int) -> AddressedArray:
        check_memory(8 * room * len(self._rope.frequencies), "RoPE table", "choose a smaller --ctx")
        return AddressedArray.of(np.empty((room, len(self._rope.frequencies), 2), np.float32))
