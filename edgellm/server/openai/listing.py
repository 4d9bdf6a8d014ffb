"""/v1/models, and /v1/embeddings, which no model has yet."""

import asyncio
from collections.abc import Mapping
from typing import Any

from edgellm.server.catalog import ServedModel
from edgellm.server.exchange import Exchange
from edgellm.server.failures import RequestError
from edgellm.server.fields import Fields


async def models(exchange: Exchange, body: Fields) -> None:
    """Answer with all models."""
    found, contexts = await asyncio.to_thread(exchange.service.catalog.models), _contexts(exchange)
    entries = await asyncio.to_thread(lambda: [_entry(each, contexts) for each in found])
    await exchange.reply({"object": "list", "data": entries})


async def model(exchange: Exchange, body: Fields) -> None:
    """Answer with the model of a path."""
    name = exchange.request.path_params["name"]
    found = await exchange.service.find(name)
    await exchange.reply(await asyncio.to_thread(_entry, found, _contexts(exchange)))


async def embeddings(exchange: Exchange, body: Fields) -> None:
    """Refuse."""
    message = "embeddings are not supported: edgellm serves models that write text; ask another server for them"
    raise RequestError(400, message, code="not_supported")  # clients would try again after a status of 500 or more


def _contexts(exchange: Exchange) -> dict[ServedModel, int]:
    """The contexts of the open models, in tokens."""
    return {each.served: each.model.ctx for each in exchange.service.models.running()}


def _entry(served: ServedModel, contexts: Mapping[ServedModel, int]) -> dict[str, Any]:
    """A model; `max_model_len`, as vLLM calls it, is the context of an open one."""
    try:
        created = int(served.path.stat().st_mtime)
    except OSError:
        created = 0
    entry = {"id": served.name, "object": "model", "created": created, "owned_by": "edgellm"}
    return entry | ({"max_model_len": contexts[served]} if served in contexts else {})
