"""Turns at something that only one thread at a time may use, in the order in which they were asked for."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL_S = 0.02
"""How often somebody who waits looks whether that is still wanted."""


class GivenUp(Exception):  # noqa: N818 (it is news, not an error)
    """Whoever waited for a turn no longer wants it."""


class Turns:
    """A fair lock: nobody has a second turn before those who were waiting had their first."""

    def __init__(self) -> None:
        # In the order of asking; the first has the turn.
        self._tickets: dict[object, threading.Event | None] = {}

    def take(self, work: Callable[[], T], given_up: Callable[[], bool] = lambda: False) -> T:
        """Wait for a turn, and the result of `work` in it. Not from within another turn.

        Raises GivenUp if `given_up` becomes true while others have the turn.
        """
        # Storing and deleting are one instruction each, with no call around them in which Ctrl-C could come and
        # leave the ticket of somebody who has gone: a context manager could not promise that.
        ticket = object()
        self._tickets[ticket] = None
        try:
            self._wait(ticket, given_up)
            return work()
        finally:
            del self._tickets[ticket]
            for first in list(self._tickets.values())[:1]:
                if first:
                    first.set()

    def _wait(self, ticket: object, given_up: Callable[[], bool]) -> None:
        if self._is_first(ticket):
            return  # nearly always: an event costs as much as all the rest here
        turn = self._tickets[ticket] = threading.Event()
        while not self._is_first(ticket):  # asked anew, as the turn may have come before there was an event
            if given_up():
                raise GivenUp
            turn.wait(_POLL_S)

    def _is_first(self, ticket: object) -> bool:
        # A list is made in one go; an iterator would fail if another thread's ticket went meanwhile.
        return list(self._tickets)[0] is ticket  # noqa: RUF015
