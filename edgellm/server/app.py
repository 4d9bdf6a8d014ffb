"""The application of a server: its routes, behind the guard and the access log."""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from edgellm.server.access_log import AccessLog
from edgellm.server.anthropic.errors import ANTHROPIC
from edgellm.server.endpoint import Dialect, RouteEndpoint
from edgellm.server.failures import RequestError
from edgellm.server.guard import Guard
from edgellm.server.ollama.errors import OLLAMA
from edgellm.server.openai.errors import OPENAI
from edgellm.server.routes import ROUTES
from edgellm.server.service import Service

_DIALECTS: dict[str, Dialect] = {"/v1/messages": ANTHROPIC, "/api/": OLLAMA, "": OPENAI}
"""How errors are told to clients, by the beginning of a path, the longest first."""


def make_app(service: Service, log: Callable[[str], None]) -> ASGIApp:
    """The application. `log` gets a line for each request."""
    routes = [Route(each.path, RouteEndpoint(service, each), methods=[each.method]) for each in ROUTES]
    app = Starlette(routes=routes)
    guard = Guard(app, service.settings, _DIALECTS)

    async def refuse(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        allowed = (getattr(error, "headers", None) or {}).get("Allow", "another method")
        methods = ", ".join(sorted(allowed.split(", ")))  # a set: its order differs from run to run
        reason = {404: "there is no such path", 405: f"give {methods} in place of {request.method}"}
        code = {404: "not_found", 405: "method_not_allowed"}.get(status, "internal_error")
        refusal = guard.refusal(
            request.url.path, RequestError(status, f"{reason.get(status, 'an error')}: {request.url.path}", code=code)
        )
        refusal.headers.update(getattr(error, "headers", None) or {})  # Allow has the methods
        return refusal

    app.add_exception_handler(HTTPException, refuse)
    return AccessLog(guard, service.metrics, log)
