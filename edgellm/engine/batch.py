"""A batch of rows; each row is one token of one sequence."""

from array import array
from collections.abc import Sequence as Ids
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.kv_pages import PageTable
from edgellm.engine.position_tables import PositionTables
from edgellm.engine.protocol import Segment
from edgellm.engine.recurrent_states import RecurrentStates
from kquants.records import BatchRecord


class BatchMemory(NamedTuple):
    """The BatchRecord of a batch, int64, and the arrays that it points to: `addresses` int64, `numbers` int32."""

    words: "array[int]"
    addresses: "array[int]"
    numbers: "array[int]"

    @property
    def address(self) -> int:
        """The address of the record."""
        return self.words.buffer_info()[0]


class Cells(Protocol):
    """What the rows of a sequence read and write: its pages and states. Its length is that of the text before them."""

    @property
    def tables(self) -> list[PageTable]:
        """The page table of each KV group."""

    @property
    def states(self) -> RecurrentStates:
        """The recurrent states."""

    def __len__(self) -> int: ...


class RowBatch(Protocol):
    """Rows for a program: `rows` of them, of which the logits of `outputs` are wanted; perhaps with features."""

    rows: int
    outputs: int
    features: NDArray[np.float32] | None

    def record(self, pages: int) -> BatchMemory:
        """See `Batch.record`."""


class Batch:
    """Segments of different sequences, laid out as rows for the devices.

    Each segment must have a token at least, and each sequence room for its new tokens. `lengths`: rows of each segment.
    `tables`: for each KV group and each segment the page ids of its sequence (the sequence's own list). For each row,
    `tokens` has its token, `cells` the cell of its sequence that it writes, `positions` its position, and the row sees
    the cells `first` … `visible` - 1. `states` has for each segment the state page that it begins with, and
    `kept_states` for each row the one that gets its state, -1 for none; both are empty without recurrent layers.
    `wanted`: rows whose logits are wanted; row i of the logits is that of wanted row i. `features`: those of all rows,
    float32 [rows, width], for a head.
    """

    def __init__(self, segments: Ids[Segment[Cells]], position_tables: PositionTables) -> None:
        self.lengths = [len(s.tokens) for s in segments]
        groups = range(len(segments[0].sequence.tables))
        self.tables = [[s.sequence.tables[group].ids for s in segments] for group in groups]
        self.tokens = [token for s in segments for token in s.tokens]
        self.cells = [n for s in segments for n in range(len(s.sequence), len(s.sequence) + len(s.tokens))]
        self.positions, self.first = self.cells, [0] * len(self.cells)
        self.visible = [n + 1 for n in self.cells]
        self.starts = list(accumulate(self.lengths, initial=0))
        self.wanted = [start + i for s, start in zip(segments, self.starts, strict=False) for i in s.wanted]
        self.rows, self.outputs = len(self.tokens), len(self.wanted)
        recurrent = [s for s in segments if s.sequence.states.pool is not None]
        self.states = [s.sequence.states.before(len(s.sequence)) for s in recurrent]
        self.kept_states = [page for s in recurrent for page in s.sequence.states.kept(len(s.sequence), len(s.tokens))]
        self._embeddings = _own_embeddings(segments)
        features = [s.features for s in segments if s.features is not None]
        self.features = np.concatenate(features) if features else None
        self._position_tables = position_tables.up_to(max(self.visible))

    @cached_property
    def position_values(self) -> list[NDArray[np.float32]]:
        """Of each position table the values of each row: float32 [rows, width]."""
        return self._position_tables.at(self.positions)

    def __getstate__(self) -> dict[str, Any]:
        """The state that another process needs: the values of the rows in place of those of all positions."""
        state = {**vars(self), "position_values": self.position_values}
        del state["_position_tables"], state["_embeddings"], state["features"]
        return state

    def record(self, pages: int) -> BatchMemory:
        """The record; `pages` is the address of int64[KV groups + 1], see BatchRecord.

        The arrays are those of Python, not of NumPy, whose code would be read from memory for each token, since the
        weights of a token leave nothing else in the caches: 0.1 ms more a token.
        """
        lists = self._lists()
        ids = [page for tables in self.tables for table in tables for page in table]
        numbers = array("i", [*chain.from_iterable(lists.values()), *ids])
        *places, after = accumulate((4 * len(each) for each in lists.values()), initial=numbers.buffer_info()[0])
        addresses = self._page_tables(after)
        table_count = len(addresses)
        addresses.extend(0 if each is None else each.ctypes.data for each in self._embeddings)
        page_tables = addresses.buffer_info()[0]
        record = BatchRecord(
            rows=self.rows,
            outputs=self.outputs,
            segments=len(self.lengths),
            embeddings=page_tables + 8 * table_count if self._embeddings else 0,
            position_tables=self._position_tables.address,
            page_tables=page_tables,
            pages=pages,
            **dict(zip(lists, places, strict=True)),
        )
        return BatchMemory(array("q", record), addresses, numbers)

    def _lists(self) -> dict[str, list[int]]:
        """The lists of numbers that the record points to, by its fields."""
        return {
            "tokens": self.tokens,
            "positions": self.positions,
            "cells": self.cells,
            "first": self.first,
            "visible": self.visible,
            "output_rows": self.wanted,
            "segment_rows": self.starts,
            "states": self.states,
            "kept_states": self.kept_states,
        }

    def _page_tables(self, table: int) -> "array[int]":
        """For each KV group and row the address of its page table; the first table is at `table`."""
        addresses = array("q")
        for tables in self.tables:
            for length, ids in zip(self.lengths, tables, strict=True):
                addresses.extend([table] * length)
                table += 4 * len(ids)
        return addresses


def _own_embeddings(segments: Ids[Segment[Cells]]) -> list[NDArray[np.float32] | None]:
    """For each row the embedding that replaces that of its token, contiguous float32; empty if no row has any."""
    found: list[NDArray[np.float32] | None] = []
    if any(s.embeddings for s in segments):
        for s in segments:
            found += [
                np.ascontiguousarray(s.embeddings[i], np.float32) if i in s.embeddings else None
                for i in range(len(s.tokens))
            ]
    return found
