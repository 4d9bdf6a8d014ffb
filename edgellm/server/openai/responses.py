"""/v1/responses."""

from typing import Any

from edgellm.server.asked import Asked
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


def read_response(body: Fields) -> Asked:
    """What a body asks for. Raises RequestError and OptionError."""
    streams, work = body.flag("stream"), response_work(body)
    given = {name: body.get(name) for name in _ECHOED}
    echoed = {name: default if given[name] is None else given[name] for name, default in _ECHOED.items()}
    return Asked(work, lambda model, stamp: ResponseMaker(model, stamp, echoed), streams)
