"""KV pages and the sequences that share them.

A page holds the keys and values of PAGE tokens for the layers of a KV group: all layers that see the same cells (see
`edgellm.arch.description.Description.kv_groups`). Pages have reference counts: a fork shares the pages of its parent,
and copies a page only before it writes to it. Layers with a window read no cell before it, so pages that lie wholly
before the window are freed. A sequence then goes back only to lengths whose windows it still holds: those close to its
end, and those of its checkpoints.
"""

from collections import deque
from collections.abc import Sequence as Ids
from typing import NamedTuple, Protocol

from edgellm.engine import protocol
from kquants.kv_layout import PAGE

FREED = -1
"""The entry of a page table for a page that was freed: no later token sees its cells."""

KEPT_BEFORE_WINDOW = 256
"""Cells that are kept before a window, so that a sequence can drop as many tokens and go on: rejected drafts."""


MAX_CHECKPOINTS = 4
"""Checkpoints of a sequence, beside its end."""


def most_pages(window: int | None, ctx: int, rows: int) -> int:
    """The most pages that a sequence of `ctx` tokens holds in a KV group, with its checkpoints.

    Batches have up to `rows` rows.
    """
    full = -(-ctx // PAGE)
    if window is None:
        return full
    kept = -(-(window + KEPT_BEFORE_WINDOW) // PAGE) + 1
    return min(full, -(-rows // PAGE) + (1 + MAX_CHECKPOINTS) * kept)


class PageStore(Protocol):
    """Memory for pages, by the ids that the PagePool of a KV group gives out."""

    def ensure_pages(self, group: int, pages: int) -> None:
        """Have room for pages 0 … `pages` - 1, and keep their contents. Raises NoMemoryError without memory."""

    def copy_page(self, group: int, source: int, target: int) -> None:
        """Copy the contents of a page to another."""


class PagePool:
    """The ids of all pages of KV group `group`. Each store (device) holds the part of a page that its layers have.

    `window` is that of the group's layers; None if they see all cells. Pages are allocated when first needed, and kept
    for reuse.
    """

    def __init__(self, stores: Ids[PageStore], group: int = 0, window: int | None = None) -> None:
        self._stores, self._group, self.window = stores, group, window
        self._references: list[int] = []
        self._free: list[int] = []
        self._dropped: deque[list[int]] = deque()

    def acquire(self) -> int:
        """The id of a page with one reference and undefined contents. Raises NoMemoryError."""
        while self._dropped:
            for page in self._dropped.popleft():
                self.release(page)
        if not self._free:
            for store in self._stores:
                store.ensure_pages(self._group, len(self._references) + 1)
            self._references.append(0)
            self._free.append(len(self._references) - 1)
        page = self._free.pop()
        self._references[page] = 1
        return page

    def share(self, page: int) -> int:
        """Count one more reference to a page."""
        self._references[page] += 1
        return page

    def release(self, page: int) -> None:
        """Give back one reference; a page without references is free."""
        self._references[page] -= 1
        if self._references[page] == 0:
            self._free.append(page)

    def drop(self, pages: list[int]) -> None:
        """Release pages before the next `acquire`. Any thread may call this at any time."""
        self._dropped.append(pages)

    def is_shared(self, page: int) -> bool:
        """Whether a page has more than one reference."""
        return self._references[page] > 1

    def copy(self, page: int) -> int:
        """The id of a new page with the same contents. Raises NoMemoryError."""
        copy = self.acquire()
        for store in self._stores:
            store.copy_page(self._group, page, copy)
        return copy


class PageTable:
    """The pages of one sequence in a KV group: `ids`, of which the first `freed` are FREED.

    Its pages are released when it is garbage collected.
    """

    def __init__(self, pool: PagePool, ids: list[int] | None = None, freed: int = 0) -> None:
        self.pool, self.ids, self.freed = pool, ids or [], freed

    def __del__(self) -> None:
        self.pool.drop(self.ids[self.freed :])

    def reserve(self, length: int, n: int) -> None:
        """Have room for `n` tokens behind the first `length` in pages that no other table shares.

        Raises NoMemoryError.
        """
        last, pool = length // PAGE, self.pool
        if n and length % PAGE and pool.is_shared(self.ids[last]):
            # An interrupt between these lines may leak a page, but never leaves a shared page counted as owned.
            copy, page = pool.copy(self.ids[last]), self.ids[last]
            self.ids[last] = copy
            pool.release(page)
        while len(self.ids) * PAGE < length + n:
            self.ids.append(pool.acquire())

    def free_before_window(self, length: int) -> None:
        """Free the pages that no token after the first `length` will see, but for KEPT_BEFORE_WINDOW cells."""
        window = self.pool.window
        if window is None:
            return
        keep = max(self.freed, (length + 1 - window - KEPT_BEFORE_WINDOW) // PAGE)
        if keep > self.freed:
            gone, first = self.ids[self.freed : keep], self.freed
            self.ids[first:keep], self.freed = [FREED] * (keep - first), keep
            self.pool.drop(gone)

    def reaches(self, length: int) -> bool:
        """Whether all cells are there that the token after the first `length` sees."""
        window = self.pool.window
        return window is None or not length or self.freed * PAGE <= max(0, length + 1 - window)

    def fork(self, length: int) -> "PageTable":
        """Another table that shares the pages of the first `length` tokens."""
        used = -(-length // PAGE)
        kept = [self.pool.share(page) for page in self.ids[self.freed : used]]
        freed = min(self.freed, used)
        return PageTable(self.pool, [FREED] * freed + kept, freed)

    def trim(self, length: int) -> None:
        """Release the pages behind the first `length` tokens."""
        used = -(-length // PAGE)
        gone = self.ids[max(used, self.freed) :]
        self.freed = min(self.freed, used)
        del self.ids[used:]
        self.pool.drop(gone)


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
    reserved.
    """

    def __init__(self, pools: Ids[PagePool]) -> None:
        super().__init__()
        self._pools = pools
        self.tables = [PageTable(pool) for pool in pools]
        self._checkpoints: list[SequenceCheckpoint] = []

    def reserve(self, n: int) -> None:
        """Have room for `n` more tokens in pages that no other sequence shares. Raises NoMemoryError."""
        for table in self.tables:
            table.reserve(len(self.tokens), n)

    def append(self, tokens: Ids[int]) -> None:
        """Add tokens whose state is now in the pages."""
        self.tokens.extend(tokens)
        for table in self.tables:
            table.free_before_window(len(self.tokens))

    def fork(self) -> "PagedSequence":
        """Another sequence with the same tokens, sharing the pages that hold their state."""
        child = PagedSequence(self._pools)
        child.tokens = list(self.tokens)
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
            point = next(point for point in self._checkpoints if point.reach(n) == n)
            for group, table in point.tables.items():
                self.tables[group] = table.fork(n)
        del self.tokens[n:]
        for table in self.tables:
            table.trim(n)
        if n < length:
            self._checkpoints = [point for point in self._checkpoints if point.length <= n]
        return n

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
