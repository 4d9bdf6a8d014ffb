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
from edgellm.server.anthropic.messages import messages
from edgellm.server.endpoint import Dialect, Handler, RouteEndpoint
from edgellm.server.exchange import Exchange
from edgellm.server.failures import RequestError
from edgellm.server.fields import Fields
from edgellm.server.guard import Guard
from edgellm.server.metrics import MEDIA_TYPE
from edgellm.server.ollama import chat
from edgellm.server.ollama import listing as ollama_listing
from edgellm.server.ollama.errors import OLLAMA
from edgellm.server.openai import listing
from edgellm.server.openai.chat import chat_completions
from edgellm.server.openai.completions import completions
from edgellm.server.openai.errors import COMPLETIONS, OPENAI, RESPONSES
from edgellm.server.openai.responses import responses
from edgellm.server.service import Service

_DIALECTS: dict[str, Dialect] = {"/v1/messages": ANTHROPIC, "/api/": OLLAMA, "": OPENAI}
"""How errors are told to clients, by the beginning of a path, the longest first."""

ROUTES: tuple[tuple[str, str, Dialect, Handler], ...] = (
    ("POST", "/v1/chat/completions", OPENAI, chat_completions),
    ("POST", "/v1/completions", COMPLETIONS, completions),
    ("POST", "/v1/responses", RESPONSES, responses),
    ("POST", "/v1/messages", ANTHROPIC, messages),
    ("POST", "/v1/embeddings", OPENAI, listing.embeddings),
    ("GET", "/v1/models", OPENAI, listing.models),
    ("GET", "/v1/models/{name:path}", OPENAI, listing.model),
    ("POST", "/api/chat", OLLAMA, chat.chat),
    ("POST", "/api/generate", OLLAMA, chat.generate),
    ("POST", "/api/show", OLLAMA, ollama_listing.show),
    ("POST", "/api/embed", OLLAMA, ollama_listing.embed),
    ("POST", "/api/embeddings", OLLAMA, ollama_listing.embed),
    ("GET", "/api/tags", OLLAMA, ollama_listing.tags),
    ("GET", "/api/ps", OLLAMA, ollama_listing.ps),
    ("GET", "/api/version", OLLAMA, ollama_listing.version),
)


async def health(exchange: Exchange, body: Fields) -> None:
    """Answer that the server runs."""
    slots = exchange.service.slots
    await exchange.reply({"status": "ok", "running": slots.running, "waiting": slots.waiting})


async def root(exchange: Exchange, body: Fields) -> None:
    """Answer that the server runs: what clients of ollama ask for first."""
    await exchange.reply("edgellm is running", media_type="text/plain; charset=utf-8")


async def metrics(exchange: Exchange, body: Fields) -> None:
    """Answer with the figures for Prometheus."""
    await exchange.reply(exchange.service.metrics_text(), media_type=MEDIA_TYPE)


def make_app(service: Service, log: Callable[[str], None]) -> ASGIApp:
    """The application. `log` gets a line for each request."""
    own = (("GET", "/", OPENAI, root), ("GET", "/health", OPENAI, health), ("GET", "/metrics", OPENAI, metrics))
    routes = [Route(path, RouteEndpoint(service, d, handle), methods=[m]) for m, path, d, handle in (*ROUTES, *own)]
    app = Starlette(routes=routes)
    guard = Guard(app, service.settings, _DIALECTS)

    async def refuse(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        reason = {404: "there is no such path", 405: "this path takes another method"}.get(status, "an error")
        code = {404: "not_found", 405: "method_not_allowed"}.get(status, "internal_error")
        return guard.refusal(request.url.path, RequestError(status, f"{reason}: {request.url.path}", code=code))

    app.add_exception_handler(HTTPException, refuse)
    return AccessLog(guard, service.metrics, log)
