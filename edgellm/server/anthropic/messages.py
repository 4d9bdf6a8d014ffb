"""/v1/messages."""

from edgellm.server.anthropic.answers import MessageMaker
from edgellm.server.anthropic.reading import work_of
from edgellm.server.exchange import EVENTS, Exchange
from edgellm.server.fields import Fields
from edgellm.server.openai.replies import note_end


async def messages(exchange: Exchange, body: Fields) -> None:
    """Answer a request."""
    stream, work = body.flag("stream"), work_of(body)
    async with exchange.service.run(work) as running:
        answer = MessageMaker(running.name, list(work.options.get("stop") or ()))
        async for event in running.events:
            for value in answer.events(event):
                if stream and not exchange.begun:
                    await exchange.begin(EVENTS)
                if stream:
                    await exchange.write(value, value["type"])
        note_end(exchange, running.name, [answer.end] if answer.end else [])
        await (exchange.end() if stream else exchange.reply(answer.whole()))
