"""All routes of a server."""

from collections.abc import Callable
from functools import cache
from typing import Any

from edgellm.server.answering import answering
from edgellm.server.anthropic.errors import ANTHROPIC
from edgellm.server.anthropic.reading import read_messages
from edgellm.server.asked import EVENTS, LINES, Asked
from edgellm.server.endpoint import APIRoute, Bodies, Dialect
from edgellm.server.exchange import Exchange
from edgellm.server.fields import Fields, Schema
from edgellm.server.metrics import MEDIA_TYPE
from edgellm.server.ollama import chat as ollama
from edgellm.server.ollama import listing as ollama_listing
from edgellm.server.ollama.errors import OLLAMA
from edgellm.server.openai import listing
from edgellm.server.openai.chat import read_chat
from edgellm.server.openai.completions import read_completions
from edgellm.server.openai.errors import COMPLETIONS, OPENAI, RESPONSES
from edgellm.server.openai.responses import read_response
from edgellm.server.openapi import answers, bodies
from edgellm.server.openapi.description import description

_PLAIN_TEXT = "text/plain; charset=utf-8"


async def health(exchange: Exchange, body: Fields) -> None:
    """Answer that the server runs."""
    slots = exchange.service.slots
    await exchange.reply({"status": "ok", "running": slots.running, "waiting": slots.waiting})


async def root(exchange: Exchange, body: Fields) -> None:
    """Answer that the server runs: what clients of ollama ask for first."""
    await exchange.reply("edgellm is running", media_type=_PLAIN_TEXT)


async def metrics(exchange: Exchange, body: Fields) -> None:
    """Answer with the figures for Prometheus."""
    await exchange.reply(await exchange.service.metrics_text(), media_type=MEDIA_TYPE)


async def openapi(exchange: Exchange, body: Fields) -> None:
    """Answer with the description of all routes."""
    await exchange.reply(_description(exchange.service.settings.version))


@cache
def _description(version: str) -> dict[str, Any]:
    return description(ROUTES, version)


def _generates(
    path: str, dialect: Dialect, read: Callable[[Fields], Asked], summary: str, answer: Schema, of: Bodies
) -> APIRoute:
    """A route that generates replies: whole, or as a stream."""
    stream = LINES if dialect is OLLAMA else EVENTS
    return APIRoute("POST", path, dialect, answering(read), summary, answer, read=read, bodies=of, stream=stream)


ROUTES = (
    _generates("/v1/chat/completions", OPENAI, read_chat, "Reply to a conversation", answers.CHAT, bodies.CHAT),
    _generates("/v1/completions", COMPLETIONS, read_completions, "Continue", answers.COMPLETION, bodies.COMPLETIONS),
    _generates("/v1/responses", RESPONSES, read_response, "Reply to items", answers.RESPONSE, bodies.RESPONSES),
    _generates("/v1/messages", ANTHROPIC, read_messages, "Reply to messages", answers.MESSAGE, bodies.MESSAGES),
    APIRoute("POST", "/v1/embeddings", OPENAI, listing.embeddings, "Refused: there are no such models yet"),
    APIRoute("GET", "/v1/models", OPENAI, listing.models, "The models", answers.MODELS),
    APIRoute("GET", "/v1/models/{name:path}", OPENAI, listing.model, "A model", answers.MODEL),
    _generates("/api/chat", OLLAMA, ollama.read_chat, "Reply to messages", answers.OLLAMA_CHAT, bodies.OLLAMA_CHAT),
    _generates("/api/generate", OLLAMA, ollama.read_generate, "Reply", answers.OLLAMA_GENERATE, bodies.OLLAMA_GENERATE),
    APIRoute(
        "POST",
        "/api/show",
        OLLAMA,
        ollama_listing.show,
        "What a model's file says",
        answers.SHOWN,
        read=ollama_listing.read_show,
        bodies=bodies.SHOW,
    ),
    APIRoute("POST", "/api/embed", OLLAMA, ollama_listing.embed, "Refused: there are no such models yet"),
    APIRoute("POST", "/api/embeddings", OLLAMA, ollama_listing.embed, "Refused: there are no such models yet"),
    APIRoute("POST", "/api/pull", OLLAMA, ollama_listing.pull, "Refused: `edgellm pull` pulls models"),
    APIRoute("GET", "/api/tags", OLLAMA, ollama_listing.tags, "The models", answers.TAGS),
    APIRoute("GET", "/api/ps", OLLAMA, ollama_listing.ps, "The models that are open", answers.TAGS),
    APIRoute("GET", "/api/version", OLLAMA, ollama_listing.version, "The version of edgellm", answers.VERSION),
    APIRoute("GET", "/", OPENAI, root, "That the server runs", answers.TEXT, _PLAIN_TEXT),
    APIRoute("GET", "/health", OPENAI, health, "That the server runs", answers.HEALTH),
    APIRoute("GET", "/metrics", OPENAI, metrics, "Figures for Prometheus", answers.TEXT, MEDIA_TYPE),
    APIRoute("GET", "/openapi.json", OPENAI, openapi, "This description", answers.OBJECT),
)
