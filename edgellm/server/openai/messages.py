"""Conversations as OpenAI's API has them, made ready for `edgellm.Chat`."""

from collections.abc import Sequence
from typing import Any

from edgellm.server.failures import RequestError, invalid
from edgellm.server.fields import Fields
from edgellm.text.thought import CLOSING, OPENING

ASKING = ("user", "tool")
"""The roles of messages that are replied to."""

_ROLES = ("system", "developer", "user", "assistant", "tool")
_TEXT_PARTS = ("text", "input_text", "output_text")


def begun_conversation(body: Fields) -> tuple[list[dict[str, Any]], str]:
    """The messages of a body, and the beginning of the reply: the last message, with vLLM's `continue_final_message`.

    Raises RequestError.
    """
    goes_on = body.flag("continue_final_message")
    body.only("add_generation_prompt", not goes_on)
    found = conversation(body, last=("assistant",) if goes_on else ASKING)
    if goes_on and (len(found) == 1 or found[-1].get("tool_calls")):
        raise invalid("messages", "must end with a question and the beginning of its reply, which has no tool_calls")
    return found, str(found.pop()["content"]) if goes_on else ""


def conversation(body: Fields, name: str = "messages", last: Sequence[str] = ASKING) -> list[dict[str, Any]]:
    """The messages of a body; `last` are the roles that the last one may have.

    Raises RequestError, which names the message and the field.
    """
    found = [_message(message) for message in body.objects(name)]
    if not found:
        raise RequestError(400, f"{name} must have at least one message", name, "missing_required_parameter")
    if (role := found[-1]["role"]) not in last:
        raise invalid(name, f"ends with a message from {role}; the last one must be from {' or '.join(last)}")
    return found


def _message(message: Fields) -> dict[str, Any]:
    role = message.required_word("role", *_ROLES)
    found: dict[str, Any] = {"role": "system" if role == "developer" else role, "content": content_of(message)}
    message.ignore("name", "refusal", "annotations")
    message.only("audio")
    message.only("function_call")
    if role == "assistant":
        _add_reply(message, found)
    if role == "tool" and (call := message.text("tool_call_id")):
        found["tool_call_id"] = call
    message.finish()
    return found


def _add_reply(message: Fields, found: dict[str, Any]) -> None:
    """Add the thought and the calls of a reply."""
    if thought := message.text("reasoning_content"):
        found["content"] = f"{OPENING}{thought}{CLOSING}{found['content']}"
    if calls := [_call(call) for call in message.objects("tool_calls")]:
        found["tool_calls"] = calls


def _call(call: Fields) -> dict[str, Any]:
    call.only("type", "function")
    call.ignore("index")
    if (function := call.inner("function")) is None:
        raise invalid(call.path("function"), "is missing")
    name, arguments = function.required("name"), function.get("arguments")
    if not isinstance(arguments, str | dict | None):
        raise invalid(function.path("arguments"), "must be text with a JSON object")
    function.finish()
    found = {"id": call.text("id") or "", "type": "function", "function": {"name": name, "arguments": arguments or {}}}
    call.finish()
    return found


def content_of(message: Fields, name: str = "content") -> str:
    """The text of a message: `content` is text, or parts of it. Raises RequestError for images and the like."""
    if not isinstance(value := message.text_or_list(name, "parts with text"), list):
        return value or ""
    return "".join(_text_of(part) for part in message.objects(name))


def _text_of(part: Fields) -> str:
    if isinstance(text := part.get("refusal"), str):
        return text
    if part.get("type") not in _TEXT_PARTS:
        raise invalid(part.path("type"), "is not supported: only text is")
    return part.required("text")
