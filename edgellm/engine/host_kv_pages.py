"""KV pages in the memory of the CPU."""

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.budget import KVBudget
from edgellm.engine.memory import AddressedArray, huge
from kquants.kv_layout import PAGE

CHUNK = 32 << 20
"""Bytes that are allocated at a time, so that pages share huge pages. They cost nothing before they are used."""


class HostKVPages:
    """KV pages of `page_bytes` bytes within a budget; `addresses`, int64, has the address of each page by its id."""

    def __init__(self, page_bytes: int, budget: KVBudget) -> None:
        self.page_bytes, self._budget = page_bytes, budget
        self.addresses = AddressedArray.of(np.zeros(64, np.int64))
        self._pages: list[NDArray[np.uint8]] = []

    def ensure_pages(self, pages: int) -> None:
        """See `edgellm.engine.kv_pages.PageStore`; allocates many pages at once."""
        held = len(self._pages)
        if pages <= held or not self.page_bytes:
            return
        new = self._allocate(pages - held)
        count = len(new)
        if held + count > len(self.addresses.array):
            self.addresses = AddressedArray.of(np.concatenate([self.addresses.array, np.zeros(held + count, np.int64)]))
        self.addresses.array[held : held + count] = [page.ctypes.data for page in new]
        self._pages.extend(new)

    def _allocate(self, needed: int) -> NDArray[np.uint8]:
        """At least `needed` new pages, uint8 [pages, page_bytes]. Raises NoMemoryError."""
        held = len(self._pages)
        room = self._budget.room(held * self.page_bytes) // self.page_bytes
        try:
            if room >= needed:
                count = min(max(needed, CHUNK // self.page_bytes), room)
                return huge(count * self.page_bytes).reshape(count, self.page_bytes)
        except MemoryError:  # from a system that does not overcommit memory
            pass
        return self._budget.refuse(needed * self.page_bytes, held * PAGE)

    def copy_page(self, source: int, target: int) -> None:
        """See `edgellm.engine.kv_pages.PageStore`."""
        if self.page_bytes:
            self._pages[target][:] = self._pages[source]

    def clear(self) -> None:
        """Free all pages."""
        self._pages.clear()
