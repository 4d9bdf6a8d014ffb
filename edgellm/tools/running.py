"""Runs the functions that a reply calls; the model is told what they return, and why there is no result."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from edgellm.fmt import printable
from edgellm.tools.calls import REFUSED, ToolCall
from edgellm.tools.messages import result_message, value_text
from edgellm.tools.tool import Tool

Approve = Callable[[ToolCall], bool]
"""Whether a call may run."""

_MAX_ERROR = 400
"""Characters of an error that the model is told."""


def can_run(tools: Mapping[str, Tool], calls: Iterable[ToolCall]) -> bool:
    """Whether all calls are of tools that have a function."""
    return all(call.name in tools and tools[call.name].function for call in calls)


def run_calls(tools: Mapping[str, Tool], calls: Iterable[ToolCall], approve: Approve | None) -> list[dict[str, Any]]:
    """Run calls in their order; returns a message of the role `tool` for each. What `approve` raises goes through."""
    return [result_message(call.id, call.name, _result(tools[call.name], call, approve)) for call in calls]


def _result(tool: Tool, call: ToolCall, approve: Approve | None) -> str:
    """The result of a call as text. What the function raises is the result, on one line."""
    if approve is not None and not approve(call):
        return REFUSED
    try:
        return value_text(tool.run(call.arguments))
    except Exception as error:
        problem = printable(str(error), _MAX_ERROR)
        return f"error: {type(error).__name__}: {problem}" if problem else f"error: {type(error).__name__}"
