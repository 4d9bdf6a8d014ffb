"""A line for each request, on stderr: what was asked for and what it took, without any text of users or models."""

from collections.abc import Callable
from time import monotonic
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgellm.fmt import printable
from edgellm.server.metrics import Metrics

_MAX_PATH = 80
_CLOSED = 499
"""The status of a request whose client is gone before an answer; nginx has the same."""


class AccessLog:
    """Middleware that writes a line with `log` at the end of each request, and counts its status."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log: Callable[[str], None]) -> None:
        self._app, self._metrics, self._log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and log it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began, status, note = monotonic(), _CLOSED, scope.setdefault("edgellm", {})

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._metrics.answered(status)
            self._log(_line(scope, status, monotonic() - began, note))
        return None


def _line(scope: Scope, status: int, seconds: float, note: dict[str, Any]) -> str:
    client = scope.get("client")
    facts = " ".join(f"{name}={printable(str(value))}" for name, value in note.items())
    path = printable(scope["path"], _MAX_PATH)
    line = f"{client[0] if client else 'unix'} {scope['method']} {path} {status} {seconds:.2f}s {facts}"
    return line.rstrip()
