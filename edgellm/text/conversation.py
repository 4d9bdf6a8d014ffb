"""Conversations: messages with text, calls of tools and their results, checked.

    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call00000", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}]}
    {"role": "tool", "tool_call_id": "call00000", "name": "weather", "content": "12 °C"}

`arguments` may also be text with a JSON object in it, as OpenAI's API has them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable

Message = Mapping[str, Any]
_CALLS = '[{"id": …, "type": "function", "function": {"name": …, "arguments": {…}}}]'


def check_messages(messages: Sequence[Message]) -> None:
    """Raises EdgeLLMError, in one line, unless each message is a mapping with a role and content, or calls of tools."""
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise EdgeLLMError(f"message {number} must be a mapping with a text as role and one as content")
        calls = message.get("tool_calls") if message["role"] == "assistant" else None
        if not isinstance(message.get("content"), str) and not (calls and message.get("content") is None):
            raise EdgeLLMError(f"message {number} must be a mapping with a text as role and one as content")
        if calls is not None:
            _check_calls(number, calls)
        for key in ("tool_call_id", "name"):
            if message["role"] == "tool" and not isinstance(message.get(key), str | None):
                raise EdgeLLMError(f"message {number}: {key} must be a text")


def has_calls(messages: Sequence[Message]) -> bool:
    """Whether a message calls tools."""
    return any(isinstance(message, Mapping) and message.get("tool_calls") for message in messages)


def arguments_of(call: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments of a call in a message; None if they are no object, nor text with a JSON object."""
    found = call["function"].get("arguments")
    if isinstance(found, str):
        try:
            found = json.loads(found) if found.strip() else {}
        except (ValueError, RecursionError):
            return None
    return dict(found) if isinstance(found, Mapping) else {} if found is None else None


def texts_of(message: Message) -> Iterator[str]:
    """All texts of a message that a model or a program wrote."""
    yield message.get("content") or ""
    for call in message.get("tool_calls") or ():
        yield json.dumps(arguments_of(call), ensure_ascii=False)


def _check_calls(number: int, calls: Any) -> None:
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise EdgeLLMError(f"message {number}: tool_calls must be a list: {_CALLS}")
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise EdgeLLMError(f"message {number}: a call must have a function with a name: {_CALLS}")
        if not isinstance(call.get("id"), str | None):
            raise EdgeLLMError(f"message {number}: the id of a call must be a text")
        if arguments_of(call) is None:
            name = printable(function["name"])
            raise EdgeLLMError(f"message {number}: the arguments of the call of {name} are no JSON object")
