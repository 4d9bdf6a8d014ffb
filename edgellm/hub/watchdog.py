"""Shuts down connections that are too slow, whether headers, frames or bytes of a file arrive slowly."""

import socket
from collections.abc import Mapping
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

from edgellm.fmt import size

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
        self._stream: Any = None
        self._ended = Event()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Receive the connection when it is opened: the extension `trace` of an httpx2 request."""
        if hasattr(info.get("return_value"), "get_extra_info"):
            self._stream = info["return_value"]

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
        while not self._ended.is_set():  # the connection may not be open yet
            self.is_slow = True
            self._shut_down()
            self._ended.wait(_AGAIN_S)

    def _shut_down(self) -> None:
        connection = self._stream and self._stream.get_extra_info("socket")
        if isinstance(connection, socket.socket):
            with suppress(OSError):
                # `close` would free the file descriptor for another file while a thread still reads from it. The
                # method of an SSL socket would remove the SSL state that a thread reads with.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
