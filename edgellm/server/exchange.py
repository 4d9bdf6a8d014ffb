"""One request and its answer: the body is bounded, and a client that is too slow, or gone, ends both."""

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from edgellm.server.asked import EVENTS
from edgellm.server.failures import RequestError
from edgellm.server.fields import Fields
from edgellm.server.json_text import encoded, parsed
from edgellm.server.service import Service

JSON = "application/json"

_AT_ONCE = 1 << 16
"""Bytes of JSON that are read at once; more take so long that other requests would notice."""


class ClientGoneError(Exception):
    """The client has closed the connection, or does not read."""


class Exchange:
    """A request to `service`, and its answer: `reply`, or `begin`, `write` and `end`.

    `note` has facts for the access log, none of them a text of a user or a model.
    """

    def __init__(self, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
        self.service, self.note = service, scope.setdefault("edgellm", {})
        self.request, self._receive, self._send = Request(scope, receive), receive, send
        self.begun = False
        self.events = False

    async def body(self) -> Fields:
        """The JSON object in the body. Raises RequestError, and ClientGoneError."""
        try:
            async with asyncio.timeout(self.service.settings.body_timeout):
                content = await self._content()
        except TimeoutError:
            raise RequestError(408, "the body did not arrive in time", code="timeout") from None
        if len(content) > _AT_ONCE:
            return Fields.of(await asyncio.to_thread(parsed, content, "the body"), "")
        return Fields.of(parsed(content, "the body"), "")

    async def _content(self) -> bytes:
        content, most = bytearray(), self.service.settings.max_body
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            content += message.get("body", b"")
            if len(content) > most:
                raise RequestError(413, f"the body has more than {most:,} bytes", code="too_large")
            if not message.get("more_body"):
                return bytes(content)

    async def gone(self) -> None:
        """Wait until the client has closed the connection. To be called once the body is read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def reply(
        self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None, media_type: str = JSON
    ) -> None:
        """Answer with a JSON value, or with a text of another type."""
        content = encoded(value) if media_type == JSON else str(value).encode()
        await self._start(status, media_type, {**(headers or {}), "content-length": str(len(content))})
        await self._deliver({"type": "http.response.body", "body": content})

    async def begin(self, media_type: str) -> None:
        """Begin an answer that comes in parts."""
        self.events = media_type == EVENTS
        await self._start(200, media_type, {"cache-control": "no-cache"})

    async def write(self, value: Any, event: str | None = None) -> None:
        """Write a JSON value as a part: a server-sent event, named `event` if that is given, or a line."""
        if not self.events:
            return await self._part(encoded(value) + b"\n")
        name = b"" if event is None else f"event: {event}\n".encode()
        return await self._part(name + b"data: " + encoded(value) + b"\n\n")

    async def end(self, last: bytes = b"") -> None:
        """End an answer in parts, behind `last`."""
        await self._deliver({"type": "http.response.body", "body": last})

    async def _start(self, status: int, media_type: str, headers: Mapping[str, str]) -> None:
        self.begun = True
        fields = {"content-type": media_type, **headers}
        raw = [(name.encode(), value.encode()) for name, value in fields.items()]
        await self._deliver({"type": "http.response.start", "status": status, "headers": raw})

    async def _part(self, content: bytes) -> None:
        await self._deliver({"type": "http.response.body", "body": content, "more_body": True})

    async def _deliver(self, message: Message) -> None:
        try:
            async with asyncio.timeout(self.service.settings.send_timeout):
                await self._send(message)
        except (TimeoutError, OSError):
            raise ClientGoneError from None
