"""Who may use a server: the headers Host, Origin and Authorization are checked before any route is found.

Host: a web page whose name an attacker makes mean this machine (DNS rebinding) sends that name. Origin: a browser sends
it with what scripts of a page ask for.
"""

from collections.abc import Mapping
from hmac import compare_digest
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgellm.server.endpoint import Dialect
from edgellm.server.failures import RequestError
from edgellm.server.settings import ServeSettings

_ALLOWED_METHODS = "GET, POST, DELETE, HEAD, OPTIONS"
_PUBLIC = ("/health",)
"""Paths that need no key."""


class Guard:
    """Middleware that refuses requests. `dialects` are by the beginning of a path, the longest first."""

    def __init__(self, app: ASGIApp, settings: ServeSettings, dialects: Mapping[str, Dialect]) -> None:
        self._app, self._settings, self._dialects = app, settings, dialects

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        send = _with_cors(send, origin) if origin and self._is_allowed(origin) else send
        try:
            self._check_origin(headers)
            if scope["method"] == "OPTIONS" and origin:
                return await _preflight(headers)(scope, receive, send)
            self._check_key(scope["path"], headers)
        except RequestError as error:
            return await self.refusal(scope["path"], error)(scope, receive, send)
        return await self._app(scope, receive, send)

    def refusal(self, path: str, error: RequestError) -> Response:
        """The answer to a request for a path that gets no further."""
        dialect = next(each for begin, each in self._dialects.items() if path.startswith(begin))
        return JSONResponse(dialect.error(error), error.status, error.headers)

    def _check_origin(self, headers: Headers) -> None:
        """Raises RequestError for a Host or an Origin from which nothing may come."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if not (self._settings.unix or self._settings.api_key) and not self._is_own(_name(host)):
            message = "the header Host names another machine: use 127.0.0.1 or localhost, or give --host and --api-key"
            raise RequestError(403, message, code="forbidden_host")
        if origin and not self._is_allowed(origin) and urlsplit(origin).netloc.casefold() != host.casefold():
            raise RequestError(403, "this web page may not use the server: --allow-origin", code="forbidden_origin")

    def _check_key(self, path: str, headers: Headers) -> None:
        """Raises RequestError unless the key is given, if there is one."""
        key = self._settings.api_key
        if key is None or path in _PUBLIC:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        given = given.strip() if scheme.casefold() == "bearer" else headers.get("x-api-key", "")
        if not compare_digest(given.encode(), key.encode()):
            message = "the key is missing or wrong: give it as Authorization: Bearer KEY"
            raise RequestError(401, message, code="invalid_api_key")

    def _is_own(self, name: str) -> bool:
        if name == "localhost" or name.endswith(".localhost") or name == self._settings.host.casefold():
            return True
        try:
            ip_address(name)  # no name, so that no DNS server chooses what it means
        except ValueError:
            return False
        return True

    def _is_allowed(self, origin: str) -> bool:
        return "*" in self._settings.origins or origin in self._settings.origins


def _name(host: str) -> str:
    """The name in a header Host, without the port."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.casefold().removesuffix(".")


def _preflight(headers: Headers) -> Response:
    """The answer to a browser that asks whether it may send a request of an allowed page."""
    asked = headers.get("access-control-request-headers", "content-type, authorization")
    allowed = {"access-control-allow-methods": _ALLOWED_METHODS, "access-control-allow-headers": asked}
    return Response(status_code=204, headers={**allowed, "access-control-max-age": "600"})


def _with_cors(send: Send, origin: str) -> Send:
    """`send` with the headers by which a browser lets a page of this origin read the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["access-control-allow-origin"] = origin
            headers.add_vary_header("origin")
        await send(message)

    return sending
