"""Sequences over KV pages.

A fork shares the pages of its parent. With windows a sequence goes back only to lengths whose windows it still holds:
those close to its end, and those of its checkpoints.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Ids
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.engine import protocol
from edgellm.engine.kv_pages import MAX_CHECKPOINTS, PagePool, PageTable

_NONE: Mapping[int, NDArray[np.float32]] = MappingProxyType({})


class SequenceCheckpoint(NamedTuple):
    """A length to which a sequence can go back: the page tables of KV groups with windows, by group, at that length."""

    length: int
    tables: dict[int, PageTable]

    def reach(self, n: int) -> int:
        """The largest length up to `n` whose windows the checkpoint holds; 0 if there is none."""
        n = min(n, self.length)
        return n if all(table.reaches(n) for table in self.tables.values()) else 0


class PagedSequence(protocol.Sequence):
    """The state of one sequence of tokens: their ids, and the page tables of each KV group.

    `tokens` are exactly those whose state is in the pages: a stopped computation adds none, but may leave pages
    reserved. `embeddings` are those that some of them had in place of their own, by cell.
    """

    def __init__(self, pools: Ids[PagePool]) -> None:
        super().__init__()
        self._pools = pools
        self.embeddings: dict[int, NDArray[np.float32]] = {}
        self.tables = [PageTable(pool) for pool in pools]
        self._checkpoints: list[SequenceCheckpoint] = []

    def reserve(self, n: int) -> None:
        """Have room for `n` more tokens in pages that no other sequence shares. Raises NoMemoryError."""
        for table in self.tables:
            table.reserve(len(self.tokens), n)

    def append(self, tokens: Ids[int], embeddings: Mapping[int, NDArray[np.float32]] = _NONE) -> None:
        """Add tokens whose state is now in the pages; some of them, by index, had these embeddings."""
        length = len(self.tokens)
        self.embeddings = self._embeddings_before(length) | {length + i: each for i, each in embeddings.items()}
        self.tokens.extend(tokens)
        for table in self.tables:
            table.free_before_window(len(self.tokens))

    def _embeddings_before(self, cell: int) -> dict[int, NDArray[np.float32]]:
        return {at: each for at, each in self.embeddings.items() if at < cell}

    def fork(self) -> "PagedSequence":
        """Another sequence with the same tokens, sharing the pages that hold their state."""
        child = PagedSequence(self._pools)
        child.tokens, child.embeddings = list(self.tokens), self._embeddings_before(len(self))
        child.tables = [table.fork(len(self)) for table in self.tables]
        child._checkpoints = list(self._checkpoints)
        return child

    def mark(self) -> None:
        """Keep the pages that the next token sees as a checkpoint, if there are windows.

        A checkpoint takes the pages of a window at most. Of more than MAX_CHECKPOINTS the least useful one goes (see
        `_least_useful`).
        """
        tables = {group: table for group, table in enumerate(self.tables) if table.pool.window is not None}
        if not tables or not self.tokens or any(point.length == len(self) for point in self._checkpoints):
            return
        point = SequenceCheckpoint(len(self), {group: table.fork(len(self)) for group, table in tables.items()})
        self._checkpoints.append(point)
        if len(self._checkpoints) > MAX_CHECKPOINTS:
            del self._checkpoints[_least_useful([point.length for point in self._checkpoints])]

    def reach(self, n: int) -> int:
        """The length to which `trim` would go back for `n`.

        It is `n`, unless pages that the next token sees were freed: then that of the nearest checkpoint before, or 0.
        """
        n = max(0, min(n, len(self.tokens)))
        if all(table.reaches(n) for table in self.tables):
            return n
        return max((point.reach(n) for point in self._checkpoints), default=0)

    def trim(self, n: int) -> int:
        """Keep the first `n` tokens, or as many as `reach` says, and return how many are left."""
        n, length = self.reach(n), len(self.tokens)
        if not all(table.reaches(n) for table in self.tables):
            self._return_to_checkpoint(n)
        del self.tokens[n:]
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
        self.tables, self.tokens = tables, tokens  # CPython sees no interrupt between the two
        del before  # not earlier, as page tables run code of their own when they are freed

    def belongs_to(self, pools: Ids[PagePool]) -> bool:
        """Whether the pages are of these pools."""
        return self._pools is pools

    def adopt(self, other: "PagedSequence") -> None:
        """Take the pages of another sequence with the same tokens, and leave it empty."""
        self._pools, self.tables, self._checkpoints = other._pools, other.tables, []
        other.tokens, other.tables = [], [PageTable(pool) for pool in other._pools]


def _least_useful(lengths: Ids[int]) -> int:
    """The index of the length to forget: never the last, and of the others that with the narrowest gap around it.

    Gaps are compared to the distance from the last length, so that the lengths that stay are close together near the
    end and far apart before it.
    """
    before = (0, *lengths)
    return min(range(len(lengths) - 1), key=lambda i: (lengths[i + 1] - before[i]) / (lengths[-1] - before[i]))
