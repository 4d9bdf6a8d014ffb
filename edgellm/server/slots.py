"""How many requests generate at once, and how many wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import ceil
from time import monotonic

from edgellm.server.failures import RequestError

_LONGEST_RETRY_S = 60
_WEIGHT = 0.2
"""The weight of the last request in the mean time of requests."""


class RequestSlots:
    """`parallel` requests at once, first come, first served; at most `max_queue` wait."""

    def __init__(self, parallel: int, max_queue: int) -> None:
        self.running = self.waiting = 0
        self._parallel, self._max_queue = parallel, max_queue
        self._free = asyncio.Semaphore(parallel)
        self._mean_s = 1.0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[float]:
        """Wait for a slot; yields the seconds that this took. Raises RequestError if too many wait."""
        if self._free.locked() and self.waiting >= self._max_queue:
            raise self._full()
        began = monotonic()
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        started = monotonic()
        try:
            yield started - began
        finally:
            self.running -= 1
            self._mean_s += _WEIGHT * (monotonic() - started - self._mean_s)
            self._free.release()

    def _full(self) -> RequestError:
        running, waiting = self.running, self.waiting
        seconds = min(_LONGEST_RETRY_S, max(1, ceil(self._mean_s * (waiting + 1) / self._parallel)))
        message = f"the server is busy: {running} requests run, {waiting} wait; ask again in {seconds} s"
        return RequestError(429, message, code="rate_limit_exceeded", retry_after=seconds)
