"""Runs the functions that a reply calls; the model is told what they return, and why there is no result."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from edgellm.fmt import printable
from edgellm.tools.calls import REFUSED, ToolCall
from edgellm.tools.messages import result_message, value_text
from edgellm.tools.tool import Tool

Approve = Callable[[ToolCall], bool]
"""Whether a call may run."""

NO_RESULT = "error: this call did not come to its end"
"""The result of a call that was interrupted, or not begun because of that."""

_MAX_ERROR = 400
"""Characters of an error that the model is told."""


def can_run(tools: Mapping[str, Tool], calls: Iterable[ToolCall]) -> bool:
    """Whether all calls are of tools that have a function."""
    return all(call.name in tools and tools[call.name].function for call in calls)


def run_calls(
    tools: Mapping[str, Tool],
    calls: Sequence[ToolCall],
    approve: Approve | None,
    keep: Callable[[dict[str, Any]], None],
) -> None:
    """Run calls in their order, and `keep` a message of the role `tool` for each, as it has ended.

    What `approve` raises, and Ctrl-C, goes through. The calls that did not end by then have NO_RESULT, as templates
    need a result of each call.
    """
    left = list(calls)
    try:
        while left:
            keep(_message(left[0], run_call(tools[left[0].name], left[0], approve)))
            del left[0]
    finally:
        for call in left:
            keep(_message(call, NO_RESULT))


def _message(call: ToolCall, result: str) -> dict[str, Any]:
    return result_message(call.id, call.name, result)


def run_call(tool: Tool, call: ToolCall, approve: Approve | None = None) -> str:
    """The result of a call as text. What the function raises is the result, on one line; so is the code of an exit."""
    if approve is not None and not approve(call):
        return REFUSED
    try:
        return value_text(tool.run(call.arguments))
    except (Exception, SystemExit) as error:
        problem = printable(str(error), _MAX_ERROR)
        return f"error: {type(error).__name__}: {problem}" if problem else f"error: {type(error).__name__}"
