"""/v1/responses."""

from typing import Any

from edgellm.server.answering import answer
from edgellm.server.exchange import EVENTS, Exchange
from edgellm.server.fields import Fields
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
    media_type, work = EVENTS if body.flag("stream") else None, response_work(body)
    given = {name: body.get(name) for name in _ECHOED}
    echoed = {name: default if given[name] is None else given[name] for name, default in _ECHOED.items()}
    await answer(exchange, work, lambda model: ResponseMaker(model, echoed), media_type)
