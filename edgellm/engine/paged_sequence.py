"""Sequences over KV pages and state pages.

A fork shares the pages of its parent. With windows a sequence goes back only to lengths whose windows it still holds:
those close to its end, and those of its checkpoints. With recurrent layers it goes back to its checkpoints, and to the
tokens of the last batch whose states were kept.
"""

from collections.abc import Sequence as Ids
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.engine import protocol
from edgellm.engine.kv_pages import MAX_CHECKPOINTS, PagePool, PageTable
from edgellm.engine.recurrent_states import RecurrentStates, StatePage


class SequenceCheckpoint(NamedTuple):
    """A length to which a sequence can go back.

    It has the page tables of KV groups with windows, by group, at that length, and the state of recurrent layers.
    """

    length: int
    tables: dict[int, PageTable]
    state: StatePage | None = None

    def reach(self, n: int) -> int:
        """The largest length up to `n` whose windows and state the checkpoint holds; 0 if there is none."""
        if self.state and n < self.length:
            return 0
        n = min(n, self.length)
        return n if all(table.reaches(n) for table in self.tables.values()) else 0


class PagedSequence(protocol.Sequence):
    """The state of one sequence of tokens: their ids, the page tables of each KV group, and recurrent states.

    `tokens` are exactly those whose state is in the pages: a stopped computation adds none, but may leave pages
    reserved. `embeddings` are those that some of them had in place of their own, by cell.
    """

    def __init__(self, pools: Ids[PagePool], state_pool: PagePool | None = None) -> None:
        super().__init__()
        self._pools, self.states = pools, RecurrentStates(state_pool)
        self.embeddings: dict[int, NDArray[np.float32]] = {}
        self.tables = [PageTable(pool) for pool in pools]
        self._checkpoints: list[SequenceCheckpoint] = []

    def reserve(self, segment: protocol.Segment["PagedSequence"]) -> None:
        """Have room for the tokens of a segment in pages that no other sequence shares. Raises NoMemoryError."""
        length, n = len(self.tokens), len(segment.tokens)
        for table in self.tables:
            table.reserve(length, n)
        marks = (length + i + 1 for i in segment.marks)
        self.states.reserve({*marks, *range(length + n - segment.drafts, length + n + 1)})

    def append(self, segment: protocol.Segment["PagedSequence"]) -> None:
        """Add the tokens of a segment, whose state is now in the pages."""
        length = len(self.tokens)
        new = {length + i: each for i, each in segment.embeddings.items()}
        self.embeddings = self._embeddings_before(length) | new
        self.tokens.extend(segment.tokens)
        self.states.advance()
        for i in segment.marks:
            self._add_checkpoint(length + i + 1)
        for table in self.tables:
            table.free_before_window(len(self.tokens))

    def _embeddings_before(self, cell: int) -> dict[int, NDArray[np.float32]]:
        return {at: each for at, each in self.embeddings.items() if at < cell}

    def fork(self) -> "PagedSequence":
        """Another sequence with the same tokens, sharing the pages that hold their state."""
        child = PagedSequence(self._pools, self.states.pool)
        child.states = self.states.fork(len(self))
        child.tokens, child.embeddings = list(self.tokens), self._embeddings_before(len(self))
        child.tables = [table.fork(len(self)) for table in self.tables]
        child._checkpoints = list(self._checkpoints)
        return child

    def mark(self) -> None:
        """Keep the pages that the next token sees as a checkpoint, if there are windows or recurrent layers.

        A checkpoint takes the pages of a window at most, and a state page. Of more than MAX_CHECKPOINTS the least
        useful one goes (see `_least_useful`).
        """
        self._add_checkpoint(len(self))

    def _add_checkpoint(self, n: int) -> None:
        tables = {group: table for group, table in enumerate(self.tables) if table.pool.window is not None}
        state = self.states.pages.get(n)
        if not (tables or state) or not n or any(point.length == n for point in self._checkpoints):
            return
        point = SequenceCheckpoint(n, {group: table.fork(n) for group, table in tables.items()}, state)
        self._checkpoints.append(point)
        if len(self._checkpoints) > MAX_CHECKPOINTS:
            del self._checkpoints[_least_useful([point.length for point in self._checkpoints])]

    def reach(self, n: int) -> int:
        """The length to which `trim` would go back for `n`.

        It is `n`, unless pages that the next token sees were freed or its state was not kept: then that of the nearest
        checkpoint before, or 0.
        """
        n = max(0, min(n, len(self.tokens)))
        if self._holds(n):
            return n
        held = (length for length in self.states.pages if length <= n and self._holds(length))
        return max((*held, *(point.reach(n) for point in self._checkpoints)), default=0)

    def _holds(self, n: int) -> bool:
        """Whether the windows and the state of the token behind the first `n` are there without a checkpoint."""
        return self.states.reaches(n) and all(table.reaches(n) for table in self.tables)

    def trim(self, n: int) -> int:
        """Keep the first `n` tokens, or as many as `reach` says, and return how many are left."""
        n, length = self.reach(n), len(self.tokens)
        if not self._holds(n):
            self._return_to_checkpoint(n)
        del self.tokens[n:]
        self.states.trim(n)
        for table in self.tables:
            table.trim(n)
        if n < length:
            self._checkpoints = [point for point in self._checkpoints if point.length <= n]
        return n

    def _return_to_checkpoint(self, n: int) -> None:
        """Keep the first `n` tokens, with page tables of a checkpoint that holds their windows."""
        point = next(point for point in self._checkpoints if point.reach(n) == n)
        tables = [
            table if table.pool.window is None else point.tables[i].fork(n) for i, table in enumerate(self.tables)
        ]
        tokens, before = self.tokens[:n], self.tables
        states = RecurrentStates(self.states.pool, {n: point.state} if point.state else {})
        self.tables, self.tokens, self.states = tables, tokens, states  # CPython sees no interrupt between these
        del before  # not earlier, as page tables run code of their own when they are freed

    def belongs_to(self, pools: Ids[PagePool]) -> bool:
        """Whether the pages are of these pools."""
        return self._pools is pools

    def adopt(self, other: "PagedSequence") -> None:
        """Take the pages of another sequence with the same tokens, and leave it empty."""
        self._pools, self.tables, self._checkpoints = other._pools, other.tables, []
        self.states, other.states = other.states, RecurrentStates(other.states.pool)
        other.tokens, other.tables = [], [PageTable(pool) for pool in other._pools]


def _least_useful(lengths: Ids[int]) -> int:
    """The index of the length to forget: never the last, and of the others that with the narrowest gap around it.

    Gaps are compared to the distance from the last length, so that the lengths that stay are close together near the
    end and far apart before it.
    """
    before = (0, *lengths)
    return min(range(len(lengths) - 1), key=lambda i: (lengths[i + 1] - before[i]) / (lengths[-1] - before[i]))
