"""/v1/models, and /v1/embeddings, which no model has yet."""

import asyncio
from typing import Any

from edgellm.server.catalog import ServedModel
from edgellm.server.exchange import Exchange
from edgellm.server.failures import RequestError
from edgellm.server.fields import Fields


async def models(exchange: Exchange, body: Fields) -> None:
    """Answer with all models."""
    found = await asyncio.to_thread(exchange.service.catalog.models)
    await exchange.reply({"object": "list", "data": await asyncio.to_thread(lambda: [_entry(each) for each in found])})


async def model(exchange: Exchange, body: Fields) -> None:
    """Answer with the model of a path."""
    name = exchange.request.path_params["name"]
    found = await exchange.service.find(name)
    await exchange.reply(await asyncio.to_thread(_entry, found))


async def embeddings(exchange: Exchange, body: Fields) -> None:
    """Refuse."""
    message = "embeddings are not supported: edgellm serves models that write text; ask another server for them"
    raise RequestError(400, message, code="not_supported")  # clients would try again after a status of 500 or more


def _entry(served: ServedModel) -> dict[str, Any]:
    try:
        created = int(served.path.stat().st_mtime)
    except OSError:
        created = 0
    return {"id": served.name, "object": "model", "created": created, "owned_by": "edgellm"}
