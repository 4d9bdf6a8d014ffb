"""KV pages and the sequences that share them.

A page holds the keys and values of PAGE tokens for all layers. Pages have reference counts: a fork shares the pages of
its parent, and copies a page only before it writes to it.
"""

from collections import deque
from collections.abc import Sequence as Ids
from typing import Protocol

from edgellm.engine import protocol
from kquants.kv_layout import PAGE


class PageStore(Protocol):
    """Memory for pages, by the ids that a PagePool gives out."""

    def ensure_pages(self, pages: int) -> None:
        """Have room for pages 0 … `pages` - 1, and keep their contents. Raises NoMemoryError without memory."""

    def copy_page(self, source: int, target: int) -> None:
        """Copy the contents of a page to another."""


class PagePool:
    """The ids of all KV pages. Each store (device) holds the part of a page that belongs to its layers.

    Pages are allocated when first needed, and kept for reuse.
    """

    def __init__(self, stores: Ids[PageStore]) -> None:
        self._stores = stores
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
            store.copy_page(page, copy)
        return copy


class PagedSequence(protocol.Sequence):
    """The state of one sequence of tokens: their ids, and the ids of the pages with their keys and values.

    Its pages are released when it is garbage collected. `tokens` are exactly those whose state is in the pages: a
    stopped computation adds none, but may leave pages reserved.
    """

    def __init__(self, pool: PagePool) -> None:
        super().__init__()
        self._pool = pool
        self.pages: list[int] = []

    def __del__(self) -> None:
        self._pool.drop(self.pages)

    def reserve(self, n: int) -> None:
        """Have room for `n` more tokens in pages that no other sequence shares. Raises NoMemoryError."""
        last = len(self.tokens) // PAGE
        if n and len(self.tokens) % PAGE and self._pool.is_shared(self.pages[last]):
            # An interrupt between these lines may leak a page, but never leaves a shared page counted as owned.
            copy, page = self._pool.copy(self.pages[last]), self.pages[last]
            self.pages[last] = copy
            self._pool.release(page)
        while len(self.pages) * PAGE < len(self.tokens) + n:
            self.pages.append(self._pool.acquire())

    def append(self, tokens: Ids[int]) -> None:
        """Add tokens whose state is now in the pages."""
        self.tokens.extend(tokens)

    def fork(self) -> "PagedSequence":
        """Another sequence with the same tokens, sharing the pages that hold their state."""
        child = PagedSequence(self._pool)
        child.tokens = list(self.tokens)
        child.pages = [self._pool.share(page) for page in self.pages[: -(-len(self) // PAGE)]]
        return child

    def trim(self, n: int) -> int:
        """Keep the first `n` tokens, and return how many are left: a KV cache reaches any n."""
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
        """Take the pages of another sequence with the same tokens, and leave it empty."""
        self._pool.drop(self.pages)
        self._pool, self.pages = other._pool, other.pages
        other.tokens, other.pages = [], []
