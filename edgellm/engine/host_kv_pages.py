"""KV pages in this machine's memory."""

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.budget import KVBudget
from edgellm.engine.memory import AddressedArray, huge
from kquants.kv_layout import PAGE

CHUNK = 32 << 20
"""Bytes to ask the system for at a time. They cost nothing before they are used, and share huge pages."""


class HostKVPages:
    """Pages of `page_bytes` in this machine's memory, within a budget; `addresses` int64 has where each lies."""

    def __init__(self, page_bytes: int, budget: KVBudget) -> None:
        self.page_bytes, self._budget = page_bytes, budget
        self.addresses = AddressedArray.of(np.zeros(64, np.int64))
        self._pages: list[NDArray[np.uint8]] = []

    def ensure_pages(self, pages: int) -> None:
        """See `edgellm.engine.kv_pages.PageStore`; makes room for many at once."""
        held = len(self._pages)
        if pages <= held or not self.page_bytes:
            return
        new = self._make(pages - held)
        count = len(new)
        if held + count > len(self.addresses.array):
            self.addresses = AddressedArray.of(np.concatenate([self.addresses.array, np.zeros(held + count, np.int64)]))
        self.addresses.array[held : held + count] = [page.ctypes.data for page in new]
        self._pages.extend(new)

    def _make(self, needed: int) -> NDArray[np.uint8]:
        """So many new pages or, if there is room, more: uint8 [pages, page_bytes]. Raises NoMemoryError."""
        held = len(self._pages)
        room = self._budget.room(held * self.page_bytes) // self.page_bytes
        try:
            if room >= needed:
                count = min(max(needed, CHUNK // self.page_bytes), room)
                return huge(count * self.page_bytes).reshape(count, self.page_bytes)
        except MemoryError:  # of a system that promises no more memory than it has
            pass
        return self._budget.refuse(needed * self.page_bytes, held * PAGE)

    def copy_page(self, source: int, target: int) -> None:
        """See `edgellm.engine.kv_pages.PageStore`."""
        if self.page_bytes:
            self._pages[target][:] = self._pages[source]

    def clear(self) -> None:
        """Let go of the memory of all pages; none can be used any more."""
        self._pages.clear()
