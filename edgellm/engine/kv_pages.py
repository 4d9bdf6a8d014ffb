"""KV pages, and the page tables that share them.

A page holds the keys and values of PAGE tokens for the layers of a KV group: all layers that see the same cells (see
`edgellm.arch.description.Description.kv_groups`). Pages have reference counts: a fork shares the pages of its parent,
and copies a page only before it writes to it. Layers with a window read no cell before it, so pages that lie wholly
before the window are freed.
"""

from collections import deque
from collections.abc import Sequence as Ids
from typing import Protocol

from kquants.kv_layout import PAGE

FREED = -1
"""The entry of a page table for a page that was freed: no later token sees its cells."""

KEPT_BEFORE_WINDOW = 256
"""Cells that are kept before a window, so that a sequence can drop as many tokens and go on: rejected drafts."""

MAX_CHECKPOINTS = 4
"""Checkpoints of a sequence, beside its end."""


def most_pages(window: int | None, ctx: int, rows: int) -> int:
    """The most pages that a sequence of `ctx` tokens holds in a KV group, with its checkpoints.

    Batches have up to `rows` rows. Each checkpoint may have a page of its own, which the sequence copied to go on.
    """
    full = -(-ctx // PAGE)
    if window is None:
        return full
    kept = -(-(window + KEPT_BEFORE_WINDOW) // PAGE) + 1
    return min(full + MAX_CHECKPOINTS, -(-rows // PAGE) + (1 + MAX_CHECKPOINTS) * kept)


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
        self.settle()
        if not self._free:
            for store in self._stores:
                store.ensure_pages(self._group, len(self._references) + 1)
            self._references.append(0)
            self._free.append(len(self._references) - 1)
        page = self._free.pop()
        self._references[page] = 1
        return page

    def settle(self) -> None:
        """Release the pages that were dropped. Nothing may be computed meanwhile."""
        while self._dropped:
            for page in self._dropped.popleft():
                self.release(page)

    @property
    def allocated(self) -> int:
        """Pages that memory was taken for."""
        return len(self._references)

    @property
    def used(self) -> int:
        """Pages with references, after `settle`."""
        return len(self._references) - len(self._free)

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
        """Release pages at the next `settle` or `acquire`. Any thread may call this at any time."""
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
        pool, end = self.pool, -(-(length + n) // PAGE)
        for i in range(length // PAGE, min(end, len(self.ids)) if n else 0):
            if pool.is_shared(self.ids[i]):
                # An interrupt between these lines may leak a page, but never leaves a shared page counted as owned.
                copy, page = pool.copy(self.ids[i]), self.ids[i]
                self.ids[i] = copy
                pool.release(page)
        while len(self.ids) < end:
            self.ids.append(pool.acquire())

    def replace(self, i: int, page: int) -> None:
        """Have another page with the same contents as the `i`-th."""
        before = self.ids[i]
        if page != before:
            self.ids[i] = self.pool.share(page)
            self.pool.release(before)

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
