"""HTTP/1.1 by uvicorn, for clients that may be slow: a connection without a request is closed after a time."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from edgellm.server.settings import BODY_TIMEOUT_S


class TimedProtocol(H11Protocol):
    """Closes a connection on which the head of the first request does not arrive in time.

    uvicorn itself does so for the requests behind the first one.
    """

    first_request_s = BODY_TIMEOUT_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._waiting: asyncio.TimerHandle | None = self.loop.call_later(self.first_request_s, self._close_silent)

    def handle_events(self) -> None:
        """Read what came; a request ends the wait."""
        super().handle_events()
        if self.cycle is not None:
            self._end_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait."""
        self._end_wait()
        super().connection_lost(exc)

    def _close_silent(self) -> None:
        self.transport.close()

    def _end_wait(self) -> None:
        if self._waiting:
            self._waiting.cancel()
            self._waiting = None
