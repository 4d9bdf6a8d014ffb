"""From work to its answer, in any dialect: as a stream of parts, or whole."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from edgellm.server.events import Event, ReplyEnd
from edgellm.server.exchange import Exchange
from edgellm.server.failures import RequestError
from edgellm.server.work import Work


class AnswerMaker(Protocol):
    """Makes the objects of one answer. `ends` are the ends of its replies so far."""

    @property
    def ends(self) -> Sequence[ReplyEnd]:
        """The ends of the replies so far."""

    def parts(self, event: Event) -> Iterable[dict[str, Any]]:
        """Add what comes; yields the parts of a stream. A server-sent event is named by the `type` of its part."""

    def last_parts(self) -> Iterable[dict[str, Any]]:
        """The parts behind all replies."""

    def whole(self) -> dict[str, Any]:
        """The whole answer."""


class OneReply:
    """What makers of answers with one reply have in common: its end."""

    _end: ReplyEnd | None = None

    @property
    def ends(self) -> Sequence[ReplyEnd]:
        """The end of the reply, if it is there."""
        return [self._end] if self._end else []

    def last_parts(self) -> Iterable[dict[str, Any]]:
        """Nothing."""
        return ()


async def answer(
    exchange: Exchange,
    work: Work,
    make: Callable[[str], AnswerMaker],
    media_type: str | None,
    last: bytes = b"",
) -> None:
    """Do work, and answer with what `make` makes for the name of its model: a stream if it has a type, or whole.

    `last` ends a stream.
    """
    async with exchange.service.run(work) as running:
        maker = make(running.name)
        async for event in running.events:
            if media_type and not exchange.begun:
                await exchange.begin(media_type)
            await _write(exchange, maker.parts(event), media_type)
        if not maker.ends:
            raise RequestError(503, "the server stops", code="stopping")
        _note(exchange, running.name, maker.ends)
        await _write(exchange, maker.last_parts(), media_type)
        await (exchange.end(last) if media_type else exchange.reply(maker.whole()))


async def _write(exchange: Exchange, parts: Iterable[dict[str, Any]], media_type: str | None) -> None:
    for part in parts:
        if media_type:
            await exchange.write(part, part.get("type"))


def _note(exchange: Exchange, model: str, ends: Sequence[ReplyEnd]) -> None:
    """Note for the access log what the replies took."""
    exchange.note |= {
        "model": model,
        "prompt": sum(end.stats.prompt_tokens for end in ends),
        "cached": sum(end.stats.cached_tokens for end in ends),
        "generated": sum(end.stats.generated_tokens for end in ends),
        "end": ",".join(dict.fromkeys(end.reason for end in ends)),
    }
