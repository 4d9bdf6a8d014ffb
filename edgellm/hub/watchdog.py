"""Shuts down connections that are too slow, whether headers, frames or bytes of a file arrive slowly."""

from threading import Event, Thread
from types import TracebackType
from typing import Self

from edgellm.fmt import size
from edgellm.system.http import RequestConnection

WINDOW_S = 60.0
MIN_BYTES = 60_000
"""The minimum in each window: a thousand bytes a second, which any modem reaches."""

_AGAIN_S = 1.0


class Watchdog:
    """Watches one request from its own thread, until the context ends; `is_slow` once it has shut the connection down.

    A socket timeout is not enough: each byte restarts it.
    """

    def __init__(self) -> None:
        self.is_slow = False
        self._received = 0
        self.connection = RequestConnection()
        self._ended = Event()

    def received(self, nbytes: int) -> None:
        """`nbytes` of the body arrived."""
        self._received += nbytes

    @property
    def reason(self) -> str:
        """Why the connection was shut down."""
        return f"less than {size(MIN_BYTES)} arrived in {WINDOW_S:.0f} s"

    def __enter__(self) -> Self:
        Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._ended.set()

    def _watch(self) -> None:
        before = 0
        while not self._ended.wait(WINDOW_S):
            received, before = self._received - before, self._received
            if received < MIN_BYTES:
                break
        while not self._ended.is_set():  # a connection that was opened meanwhile
            self.is_slow = True
            self.connection.shut_down()
            self._ended.wait(_AGAIN_S)
