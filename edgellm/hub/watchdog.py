"""A connection that is too slow is shut down, whatever is dripped over it: headers, frames or bytes of a file."""

import socket
from collections.abc import Mapping
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

from edgellm.fmt import size

WINDOW_S = 60.0
MIN_BYTES = 60_000
"""So many bytes must come in each window: a thousand a second, which any modem brings."""

_AGAIN_S = 1.0


class Watchdog:
    """Watches one request, from its beginning until the context ends, from a thread of its own.

    A timeout of a socket does not do: each byte renews it. `is_slow` tells that the connection was shut down.
    """

    def __init__(self) -> None:
        self.is_slow = False
        self._came = 0
        self._stream: Any = None
        self._ended = Event()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Hear of the connection that is made; `trace` among the extensions of an httpx2 request."""
        if hasattr(info.get("return_value"), "get_extra_info"):
            self._stream = info["return_value"]

    def received(self, nbytes: int) -> None:
        """Bytes came of what was asked for."""
        self._came += nbytes

    @property
    def reason(self) -> str:
        """Why the connection was shut down."""
        return f"less than {size(MIN_BYTES)} came in {WINDOW_S:.0f} s"

    def __enter__(self) -> Self:
        Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._ended.set()

    def _watch(self) -> None:
        before = 0
        while not self._ended.wait(WINDOW_S):
            came, before = self._came - before, self._came
            if came < MIN_BYTES:
                break
        while not self._ended.is_set():  # the connection may only be in the making
            self.is_slow = True
            self._shut_down()
            self._ended.wait(_AGAIN_S)

    def _shut_down(self) -> None:
        connection = self._stream and self._stream.get_extra_info("socket")
        if isinstance(connection, socket.socket):
            with suppress(OSError):
                # Not `close`: the file descriptor would be another file's while it is still being read from. Not the
                # method of an SSL socket either, which takes the state away that is being read with.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
