"""One route: its handler, its errors in the dialect of its clients, and the end of its work when a client is gone."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Scope, Send

from edgellm.server.exchange import ClientGoneError, Exchange
from edgellm.server.failures import RequestError, failure_of
from edgellm.server.fields import Fields
from edgellm.server.service import Service

Handler = Callable[[Exchange, Fields], Awaitable[None]]


@dataclass(frozen=True)
class Dialect:
    """How a family of clients is told of errors: `error` is the body, `event` the name of an event in a stream.

    `fields` has the names of fields of requests for the options of edgellm that have others.
    """

    error: Callable[[RequestError], Any]
    fields: Mapping[str, str]
    event: str | None = None


class RouteEndpoint:
    """An ASGI application for one path. Only a POST has a body."""

    def __init__(self, service: Service, dialect: Dialect, handle: Handler) -> None:
        self._service, self._dialect, self._handle = service, dialect, handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        exchange = Exchange(self._service, scope, receive, send)
        with suppress(ClientGoneError):
            try:
                body = await exchange.body() if scope["method"] == "POST" else Fields({})
                await _unless_gone(exchange, self._handle(exchange, body))
            except ClientGoneError:
                exchange.note["end"] = "client gone"
            except Exception as error:
                await self._fail(exchange, failure_of(error, self._dialect.fields))

    async def _fail(self, exchange: Exchange, error: RequestError) -> None:
        exchange.note["end"] = error.code or "error"
        body = self._dialect.error(error)
        if not exchange.begun:
            return await exchange.reply(body, error.status, error.headers)
        await exchange.write(body, self._dialect.event)
        return await exchange.end()


async def _unless_gone(exchange: Exchange, work: Awaitable[None]) -> None:
    """Await `work`; cancel it when the client closes the connection. Raises ClientGoneError then."""
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(exchange.gone())
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_gone = not working.done()
        for task in (working, watching):
            task.cancel()
        await asyncio.wait((working, watching))
    if is_gone:
        raise ClientGoneError
    working.result()
