"""/v1/responses."""

from typing import Any

from edgellm.server.exchange import EVENTS, Exchange
from edgellm.server.fields import Fields
from edgellm.server.openai.replies import note_end
from edgellm.server.openai.response_objects import ResponseMaker
from edgellm.server.openai.response_reading import response_work

_ECHOED: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
}
"""Fields of a request that its answer repeats, with what it has where they are not given."""


async def responses(exchange: Exchange, body: Fields) -> None:
    """Answer a request."""
    stream, work = body.flag("stream"), response_work(body)
    given = {name: body.get(name) for name in _ECHOED}
    echoed = {name: default if given[name] is None else given[name] for name, default in _ECHOED.items()}
    async with exchange.service.run(work) as running:
        answer = ResponseMaker(running.name, echoed)
        async for event in running.events:
            for value in answer.events(event):
                if stream and not exchange.begun:
                    await exchange.begin(EVENTS)
                if stream:
                    await exchange.write(value, value["type"])
        note_end(exchange, running.name, [answer.end] if answer.end else [])
        await (exchange.end() if stream else exchange.reply(answer.whole()))
