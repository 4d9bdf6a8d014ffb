"""KV pages in this machine's memory."""

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.memory import Placed, huge
from edgellm.errors import NoMemoryError
from kquants.layout import PAGE

CHUNK = 32 << 20
"""Bytes to ask the system for at a time. They cost nothing before they are used, and share huge pages."""


class HostPages:
    """Pages of `page_bytes` in this machine's memory; `addresses` int64 has where each lies."""

    def __init__(self, page_bytes: int) -> None:
        self.page_bytes = page_bytes
        self.addresses = Placed.of(np.zeros(64, np.int64))
        self._pages: list[NDArray[np.uint8]] = []

    def hold(self, pages: int) -> None:
        """See `edgellm.engine.pages.PageStore`; makes room for many at once."""
        held = len(self._pages)
        if pages <= held or not self.page_bytes:
            return
        count = max(pages - held, CHUNK // self.page_bytes)
        chunk = count * self.page_bytes
        try:
            new = huge(chunk).reshape(count, self.page_bytes)
        except MemoryError:
            raise NoMemoryError(
                f"no memory for another {chunk >> 20} MiB of KV cache after {held * PAGE} tokens; "
                "shorten the conversation or choose a smaller --ctx"
            ) from None
        if held + count > len(self.addresses.array):
            self.addresses = Placed.of(np.concatenate([self.addresses.array, np.zeros(held + count, np.int64)]))
        self.addresses.array[held : held + count] = [page.ctypes.data for page in new]
        self._pages.extend(new)

    def copy(self, source: int, target: int) -> None:
        """See `edgellm.engine.pages.PageStore`."""
        if self.page_bytes:
            self._pages[target][:] = self._pages[source]

    def clear(self) -> None:
        """Let go of the memory of all pages; none can be used any more."""
        self._pages.clear()
