"""The conversation in a request, as OpenAI's API has it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgellm.text.thought import Thought


def sent_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages as a server takes them.

    Thoughts of earlier turns are left out, as chat templates do; those before calls of the last turn are in
    `reasoning_content`, as the model goes on from them. Arguments of calls are JSON text.
    """
    last = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=-1)
    return [_sent(message, i > last) for i, message in enumerate(messages)]


def _sent(message: Mapping[str, Any], in_last_turn: bool) -> dict[str, Any]:
    role, content = message["role"], message.get("content")
    if role == "tool":
        return {"role": role, "tool_call_id": message.get("tool_call_id") or "", "content": content or ""}
    if role != "assistant":
        return {"role": role, "content": content or ""}
    thought, answer = Thought.of(content or "")
    sent: dict[str, Any] = {"role": role, "content": answer or ""}
    if calls := message.get("tool_calls"):
        sent |= {"content": answer or None, "tool_calls": list(_calls(calls))}
        if thought and in_last_turn:
            sent["reasoning_content"] = thought
    return sent


def _calls(calls: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for call in calls:
        function = call["function"]
        arguments = json.dumps(function.get("arguments") or {}, ensure_ascii=False)
        yield {
            "id": call.get("id") or "",
            "type": "function",
            "function": {"name": function["name"], "arguments": arguments},
        }
