"""A first-in, first-out lock."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL_S = 0.02
"""Seconds between two checks whether a waiting caller was cancelled."""


class WaitCancelled(Exception):  # noqa: N818 (it reports an event, not an error)
    """The caller was cancelled while it waited for the lock."""


class FairLock:
    """A lock that callers get in the order in which they asked for it."""

    def __init__(self) -> None:
        # In the order of asking; the first ticket holds the lock.
        self._tickets: dict[object, threading.Event | None] = {}

    @property
    def callers(self) -> int:
        """The number of callers that hold the lock or wait for it."""
        return len(self._tickets)

    def run(self, work: Callable[[], T], cancelled: Callable[[], bool] = lambda: False) -> T:
        """Wait for the lock, then return the result of `work`. The lock is not reentrant.

        Raises WaitCancelled if `cancelled` becomes true while another caller holds the lock; see `wake`.
        """
        # Storing and deleting a ticket are one bytecode instruction each, with no call around them in which Ctrl-C
        # could leave the ticket of a caller that has gone. A context manager could not promise that.
        ticket = object()
        self._tickets[ticket] = None
        try:
            self._wait(ticket, cancelled)
            return work()
        finally:
            del self._tickets[ticket]
            for first in list(self._tickets.values())[:1]:
                if first:
                    first.set()

    def wake(self) -> None:
        """Have all that wait check at once whether they were cancelled."""
        for waiting in list(self._tickets.values()):
            if waiting:
                waiting.set()

    def _wait(self, ticket: object, cancelled: Callable[[], bool]) -> None:
        if self._is_first(ticket):
            return  # the usual case: making an event costs as much as all the rest here
        granted = self._tickets[ticket] = threading.Event()
        while not self._is_first(ticket):  # checked again: the ticket may have become first before the event existed
            if cancelled():
                raise WaitCancelled
            granted.wait(_POLL_S)
            granted.clear()

    def _is_first(self, ticket: object) -> bool:
        # `list` copies in one step; an iterator would fail if another thread removed its ticket meanwhile.
        return list(self._tickets)[0] is ticket  # noqa: RUF015
