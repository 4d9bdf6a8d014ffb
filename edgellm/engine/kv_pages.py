"""KV pages and the sequences that share them.

A page holds the keys and values of PAGE tokens for all layers. Pages are counted references: a fork shares all
of its parent's pages and copies one only when it writes into it, so a branch costs nothing until it differs.
"""

from collections import deque
from collections.abc import Sequence as Ids
from typing import Protocol

from edgellm.engine import protocol
from kquants.kv_layout import PAGE


class PageStore(Protocol):
    """Memory for pages, whose ids are given out by a pool."""

    def ensure_pages(self, pages: int) -> None:
        """Have room for pages 0 … `pages` - 1, keeping what is in them. Raises NoMemoryError without memory."""

    def copy_page(self, source: int, target: int) -> None:
        """Copy what is in one page to another."""


class PagePool:
    """The ids of all KV pages: every device holds the part of a page that belongs to its layers.

    Pages are made when first needed, and kept for reuse.
    """

    def __init__(self, stores: Ids[PageStore]) -> None:
        self._stores = stores
        self._references: list[int] = []
        self._free: list[int] = []
        self._dropped: deque[list[int]] = deque()

    def acquire(self) -> int:
        """The id of a page with one reference; what it holds is undefined. Raises NoMemoryError."""
        while self._dropped:
            for page in self._dropped.popleft():
                self.release(page)
        if not self._free:
            for store in self._stores:
                store.ensure_pages(len(self._references) + 1)
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
        """Give back one reference; without any the page is free."""
        self._references[page] -= 1
        if self._references[page] == 0:
            self._free.append(page)

    def drop(self, pages: list[int]) -> None:
        """Release pages before the next `acquire`. Any thread may call this at any time."""
        self._dropped.append(pages)

    def shared(self, page: int) -> bool:
        """Whether more than one sequence holds a page."""
        return self._references[page] > 1

    def copy(self, page: int) -> int:
        """A page of its own with the same contents."""
        copy = self.acquire()
        for store in self._stores:
            store.copy_page(page, copy)
        return copy


class PagedSequence(protocol.Sequence):
    """The state of one sequence of tokens: their ids, and the pages with their keys and values.

    Its pages go back when it is garbage. `tokens` are exactly those whose state is in the pages: a stopped
    computation adds none, but may leave pages reserved.
    """

    def __init__(self, pool: PagePool) -> None:
        super().__init__()
        self._pool = pool
        self.pages: list[int] = []

    def __del__(self) -> None:
        self._pool.drop(self.pages)

    def reserve(self, n: int) -> None:
        """Make room for `n` more tokens in pages of our own. Raises NoMemoryError."""
        last = len(self.tokens) // PAGE
        if n and len(self.tokens) % PAGE and self._pool.shared(self.pages[last]):
            # An interrupt between these lines may lose a page, but never leaves one with two owners.
            copy, page = self._pool.copy(self.pages[last]), self.pages[last]
            self.pages[last] = copy
            self._pool.release(page)
        while len(self.pages) * PAGE < len(self.tokens) + n:
            self.pages.append(self._pool.acquire())

    def append(self, tokens: Ids[int]) -> None:
        """Take note that the state of these tokens was computed."""
        self.tokens.extend(tokens)

    def fork(self) -> "PagedSequence":
        """Another sequence with the same tokens, sharing the pages that hold their state."""
        child = PagedSequence(self._pool)
        child.tokens = list(self.tokens)
        child.pages = [self._pool.share(page) for page in self.pages[: -(-len(self) // PAGE)]]
        return child

    def trim(self, n: int) -> int:
        """Forget all but the first `n` tokens; return how many are left (a KV cache reaches any n)."""
        n = max(0, min(n, len(self.tokens)))
        keep = -(-n // PAGE)
        gone = self.pages[keep:]
        del self.tokens[n:], self.pages[keep:]
        self._pool.drop(gone)
        return n

    def belongs_to(self, pool: PagePool) -> bool:
        """Whether the pages are of this pool."""
        return self._pool is pool

    def adopt(self, other: "PagedSequence") -> None:
        """Take over the pages of another sequence with the same tokens, which is then empty."""
        self._pool.drop(self.pages)
        self._pool, self.pages = other._pool, other.pages
        other.tokens, other.pages = [], []
