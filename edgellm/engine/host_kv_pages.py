"""KV pages in the memory of the CPU."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.budget import KVBudget
from edgellm.engine.memory import HUGE, AddressedArray, huge
from kquants.kv_layout import PAGE

CHUNK = 32 << 20
"""Bytes that are allocated at a time, so that pages share huge pages. They cost nothing before they are used."""


class HostKVPages:
    """KV pages of all KV groups within a budget; those of group g have `page_bytes[g]` bytes.

    The last group has the state pages of recurrent layers, of `state_bytes` bytes each.

    `addresses` is int64 [groups]: the address of an int64 array with the address of each page by its id.
    """

    def __init__(self, page_bytes: Sequence[int], budget: KVBudget, state_bytes: int = 0) -> None:
        self.page_bytes, self._budget = [*page_bytes, state_bytes], budget
        self._tables = [AddressedArray.of(np.zeros(64, np.int64)) for _ in self.page_bytes]
        self.addresses = AddressedArray.of(np.array([table.address for table in self._tables], np.int64))
        self._pages: list[list[NDArray[np.uint8]]] = [[] for _ in self.page_bytes]

    def ensure_pages(self, group: int, pages: int) -> None:
        """See `edgellm.engine.kv_pages.PageStore`; allocates many pages at once."""
        held = len(self._pages[group])
        if pages <= held or not self.page_bytes[group]:
            return
        new = self._allocate(group, pages - held)
        count = len(new)
        if held + count > len(self._tables[group].array):
            grown = np.concatenate([self._tables[group].array, np.zeros(held + count, np.int64)])
            self._tables[group] = AddressedArray.of(grown)
            self.addresses.array[group] = self._tables[group].address
        self._tables[group].array[held : held + count] = [page.ctypes.data for page in new]
        self._pages[group].extend(new)

    def _allocate(self, group: int, needed: int) -> NDArray[np.uint8]:
        """At least `needed` new pages, uint8 [pages, page_bytes]. Raises NoMemoryError."""
        page_bytes = self.page_bytes[group]
        room = self._budget.room(self.held)
        try:
            if room >= needed * page_bytes:
                count = min(max(needed, self._chunk(room) // page_bytes), room // page_bytes)
                return huge(count * page_bytes).reshape(count, page_bytes)
        except MemoryError:  # from a system that does not overcommit memory
            pass
        if group == len(self._pages) - 1:
            return self._budget.refuse_state(page_bytes)
        return self._budget.refuse(needed * page_bytes, max(map(len, self._pages[:-1]), default=0) * PAGE)

    @property
    def held(self) -> int:
        """Bytes that are taken."""
        return sum(len(pages) * nbytes for pages, nbytes in zip(self._pages, self.page_bytes, strict=True))

    def _chunk(self, room: int) -> int:
        """Bytes to allocate at a time where `room` bytes are left: with several groups a part, as all need some."""
        groups = sum(nbytes > 0 for nbytes in self.page_bytes)
        return CHUNK if groups == 1 else min(CHUNK, max(HUGE, room // (4 * groups)), room // groups)

    def copy_page(self, group: int, source: int, target: int) -> None:
        """See `edgellm.engine.kv_pages.PageStore`."""
        if self.page_bytes[group]:
            self._pages[group][target][:] = self._pages[group][source]

    def clear(self) -> None:
        """Free all pages."""
        self._pages = [[] for _ in self.page_bytes]
