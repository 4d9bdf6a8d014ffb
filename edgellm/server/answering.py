"""From a body to its answer: as a stream of parts, or whole."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from edgellm.server.asked import Asked, Stamp
from edgellm.server.endpoint import Handler
from edgellm.server.events import ReplyEnd
from edgellm.server.exchange import Exchange
from edgellm.server.failures import RequestError
from edgellm.server.fields import Fields


def answering(read: Callable[[Fields], Asked]) -> Handler:
    """A handler that does the work of a body and answers. `read` raises RequestError and OptionError."""

    async def handle(exchange: Exchange, body: Fields) -> None:
        await _answer(exchange, read(body))

    return handle


async def _answer(exchange: Exchange, asked: Asked) -> None:
    async with exchange.service.run(asked.work) as running:
        maker = asked.make(running.name, Stamp())
        async for event in running.events:
            if asked.streams and not exchange.begun:
                await exchange.begin(asked.media_type)
            await _write(exchange, asked, maker.parts(event))
        if asked.work.prompts and not maker.ends:
            raise RequestError(503, "the server stops", code="stopping")
        _note(exchange, running.name, maker.ends)
        await _write(exchange, asked, maker.last_parts())
        await (exchange.end(asked.last) if asked.streams else exchange.reply(maker.whole()))


async def _write(exchange: Exchange, asked: Asked, parts: Iterable[dict[str, Any]]) -> None:
    for part in parts:
        if asked.streams:
            await exchange.write(part, part.get("type"))


def _note(exchange: Exchange, model: str, ends: Sequence[ReplyEnd]) -> None:
    """Note for the access log what the replies took."""
    exchange.note |= {
        "model": model,
        "prompt": sum(end.stats.prompt_tokens for end in ends),
        "cached": sum(end.stats.cached_tokens for end in ends),
        "generated": sum(end.stats.generated_tokens for end in ends),
        "end": ",".join(dict.fromkeys(end.reason for end in ends)) or "loaded",
    }
