"""/v1/messages."""

from edgellm.server.answering import answer
from edgellm.server.anthropic.answers import MessageMaker
from edgellm.server.anthropic.reading import work_of
from edgellm.server.exchange import EVENTS, Exchange
from edgellm.server.fields import Fields


async def messages(exchange: Exchange, body: Fields) -> None:
    """Answer a request."""
    media_type, work = EVENTS if body.flag("stream") else None, work_of(body)
    stops = list(work.options.get("stop") or ())
    await answer(exchange, work, lambda model: MessageMaker(model, stops), media_type)
