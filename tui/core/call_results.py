"""Which result belongs to which call of a tool, along a path of messages."""

from collections.abc import Iterable
from typing import NamedTuple

from edgellm.tools.calls import ToolCall
from tui.core.tree import Message


class CallResults(NamedTuple):
    """`calls` has the call of each result, by the id of the result's message.

    `unanswered` has the calls without a result, by the id of the reply with them.
    """

    calls: dict[int, ToolCall]
    unanswered: dict[int, list[ToolCall]]


def call_results(path: Iterable[Message]) -> CallResults:
    """Match the results that follow each reply to its calls; one without an id belongs to the first call left."""
    found = CallResults({}, {})
    waiting: list[ToolCall] = []
    for message in path:
        if message.role != "tool":
            waiting = found.unanswered[message.id] = list(message.tool_calls)
        elif call := next((call for call in waiting if message.tool_call_id in (call.id, None)), None):
            waiting.remove(call)
            found.calls[message.id] = call
    return found
