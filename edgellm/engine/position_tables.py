"""Tables by position, the same for all sequences: angles of RoPE, and factors of queries."""

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgellm.arch.description import Description
from edgellm.arch.positions import AttentionTemperature, PositionTable, Rope
from edgellm.engine.budget import check_memory
from edgellm.engine.memory import AddressedArray
from edgellm.errors import EdgeLLMError
from kquants.kv_layout import PAGE


def table_bytes(model: Description, ctx: int) -> int:
    """Bytes of all tables of a full context."""
    return sum(_whole_pages(ctx) * 4 * table.width for table in model.position_tables)


def _whole_pages(count: int) -> int:
    return -(-count // PAGE) * PAGE


def table_in_context(table: Rope | AttentionTemperature, ctx: int) -> PositionTable:
    """The table for contexts of `ctx` tokens."""
    return table.in_context(ctx) if isinstance(table, Rope) else table


class GrowingTable:
    """The values of up to `ctx` positions, computed once, PAGE positions at a time."""

    def __init__(self, table: PositionTable, ctx: int) -> None:
        self._source, self._capacity, self._computed = table, _whole_pages(ctx), 0
        self._table = self._allocate(PAGE)

    def up_to(self, count: int) -> AddressedArray:
        """A table with at least the first `count` positions: float32 [room, width]; the others are undefined.

        A full table is replaced by a larger one, so its users must hold it. Raises EdgeLLMError without memory.
        """
        if count > self._computed:
            try:
                self._compute(_whole_pages(count))
            except MemoryError:
                what = f"no memory for a table of {count} positions"
                raise EdgeLLMError(f"{what}; shorten the conversation or choose a smaller --ctx") from None
        return self._table

    def _compute(self, count: int) -> None:
        table = self._table
        if count > len(table.array):
            table = self._allocate(max(count, min(2 * len(table.array), self._capacity)))
            table.array[: self._computed] = self._table.array[: self._computed]
        table.array[self._computed : count] = self._source.values(np.arange(self._computed, count))
        self._table = table  # after an interrupt between these two lines, a page is computed again
        self._computed = count

    def _allocate(self, room: int) -> AddressedArray:
        check_memory(4 * room * self._source.width, "position tables", "choose a smaller --ctx")
        return AddressedArray.of(np.empty((room, self._source.width), np.float32))


class PositionTables:
    """The tables of a model, in the order of `Description.position_tables`, for contexts of up to `ctx` tokens."""

    def __init__(self, model: Description, ctx: int) -> None:
        self._tables = [GrowingTable(table_in_context(table, ctx), ctx) for table in model.position_tables]

    def up_to(self, count: int) -> "TableSnapshot":
        """The tables with at least the first `count` positions. Raises EdgeLLMError without memory."""
        return TableSnapshot([table.up_to(count) for table in self._tables])


class TableSnapshot:
    """The tables of a batch, which live as long as it does."""

    def __init__(self, tables: Sequence[AddressedArray]) -> None:
        self._tables = tables
        self._addresses = array("q", [table.address for table in tables])

    @property
    def address(self) -> int:
        """The address of int64[tables], the address of each table."""
        return self._addresses.buffer_info()[0]

    def at(self, positions: Sequence[int]) -> list[NDArray[np.float32]]:
        """Of each table the values of some positions: float32 [n, width]."""
        return [table.array[np.array(positions)] for table in self._tables]
