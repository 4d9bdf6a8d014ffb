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
    """`parallel` requests at once, first come, first served; at most `max_queue` wait.

    With `slo_ttft`, requests are refused whose first token is expected to take more seconds.
    """

    def __init__(self, parallel: int, max_queue: int, slo_ttft: float | None = None) -> None:
        self._slo_ttft = slo_ttft
        self.running = self.waiting = 0
        self._parallel, self._max_queue = parallel, max_queue
        self._free = asyncio.Semaphore(parallel)
        self._mean_s = 1.0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a slot. Raises RequestError if too many wait, or if that would take longer than `slo_ttft`."""
        if self._free.locked():
            self._check(self.waiting)
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        started = monotonic()
        try:
            yield
        finally:
            self.running -= 1
            self._mean_s += _WEIGHT * (monotonic() - started - self._mean_s)
            self._free.release()

    def _check(self, waiting: int) -> None:
        seconds = self._mean_s * (waiting + 1) / self._parallel
        if waiting >= self._max_queue:
            raise busy(f"{self.running} requests run, {waiting} wait", seconds)
        self.check_ttft(seconds)

    def check_ttft(self, seconds: float) -> None:
        """Raises RequestError if a request is expected to wait longer for its first token than it may."""
        if self._slo_ttft is not None and seconds > self._slo_ttft:
            problem = f"the first token would take {seconds:.1f} s, and --slo-ttft allows {self._slo_ttft:g} s"
            raise busy(problem, seconds - self._slo_ttft)


def busy(problem: str, seconds: float) -> RequestError:
    """The error of a request that may be sent again after a time."""
    retry_after = min(_LONGEST_RETRY_S, max(1, ceil(seconds)))
    message = f"the server is busy: {problem}; ask again in {retry_after} s"
    return RequestError(429, message, code="rate_limit_exceeded", retry_after=retry_after)
