"""One route: its handler, its errors in the dialect of its clients, and the end of its work when a client is gone."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Scope, Send

from edgellm.server.exchange import JSON, ClientGoneError, Exchange
from edgellm.server.failures import RequestError, failure_of
from edgellm.server.fields import Fields, Schema
from edgellm.server.service import Service

Handler = Callable[[Exchange, Fields], Awaitable[None]]
Reader = Callable[[Fields], object]
Bodies = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Dialect:
    """How a family of clients is told of errors: `error` is the body, `event` the name of an event in a stream.

    `schema` is that of the body. `fields` has the names of fields for the options of edgellm that have others.
    """

    error: Callable[[RequestError], Any]
    fields: Mapping[str, str]
    schema: Schema
    event: str | None = None


@dataclass(frozen=True)
class APIRoute:
    """A route: what answers it, and what the description of the API says of it.

    `answer` is the schema of whole answers, None for a route that only refuses. `read` reads a body, of which `bodies`
    are examples. `stream` is the media type of an answer in parts, if there is one.
    """

    method: str
    path: str
    dialect: Dialect
    handle: Handler
    summary: str
    answer: Schema | None = None
    media_type: str = JSON
    read: Reader | None = None
    bodies: Bodies = ()
    stream: str | None = None


class RouteEndpoint:
    """An ASGI application for one path. Only a POST has a body."""

    def __init__(self, service: Service, route: APIRoute) -> None:
        self._service, self._dialect, self._handle = service, route.dialect, route.handle

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
        error.message = self._service.catalog.without_paths(error.message)
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
