"""The fields of requests to /v1/responses."""

from collections.abc import Iterable
from typing import Any

from edgellm.server.failures import RequestError, invalid
from edgellm.server.fields import Fields
from edgellm.server.openai.chat import EFFORTS
from edgellm.server.openai.messages import content_of
from edgellm.server.openai.sampling import asked_logprobs, checked, sampling_options, schema_of
from edgellm.server.openai.tools import chosen, parallel_calls
from edgellm.server.work import Work

_ROLES = ("system", "developer", "user", "assistant")
_LOGPROBS = "message.output_text.logprobs"
"""What `include` has to ask for log-probabilities. Its other values ask for what there is nothing of."""


def response_work(body: Fields) -> Work:
    """What a body asks for. Raises RequestError and OptionError."""
    name, messages, options = body.text("model"), _conversation(body), sampling_options(body)
    options |= {"max_tokens": body.integer("max_output_tokens", 1), **_form(body), **_tools(body)}
    options["logprobs"] = asked_logprobs(body, _LOGPROBS in (body.entries("include") or ()), f"include of {_LOGPROBS}")
    if body.word("truncation", "auto", "disabled") == "auto":
        options["overflow"] = "drop"
    effort = _effort(body)
    for field in ("previous_response_id", "conversation", "prompt"):
        body.only(field)
    body.only("background", False)
    body.ignore("store", "max_tool_calls")  # nothing is stored
    body.finish()
    return Work(name, [messages], checked(options), think=effort)


def _conversation(body: Fields) -> list[dict[str, Any]]:
    found = [{"role": "system", "content": system}] if (system := body.text("instructions")) else []
    if isinstance(given := body.text_or_list("input", "items"), str):
        return [*found, {"role": "user", "content": given}]
    if not given:
        raise RequestError(400, "input is missing", "input", "missing_required_parameter")
    return [*found, *_joined(filter(None, map(_message, body.objects("input"))))]


def _message(item: Fields) -> dict[str, Any] | None:
    """The message that an item is; None for one that says nothing to a model."""
    kind = item.text("type") or "message"
    item.ignore("id", "status", "phase", "namespace")
    if kind == "message":
        found = _text_message(item)
    elif kind == "function_call":
        function = {"name": item.required("name"), "arguments": item.text("arguments") or "{}"}
        call = {"id": item.required("call_id"), "type": "function", "function": function}
        found = {"role": "assistant", "content": None, "tool_calls": [call]}
    elif kind == "function_call_output":
        found = {"role": "tool", "tool_call_id": item.required("call_id"), "content": content_of(item, "output")}
    elif kind == "reasoning":
        return None
    else:
        raise invalid(item.path("type"), "is not supported: only messages and calls of functions are")
    item.finish()
    return found


def _text_message(item: Fields) -> dict[str, Any]:
    role = item.required_word("role", *_ROLES)
    return {"role": "system" if role == "developer" else role, "content": content_of(item)}


def _joined(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages, with calls in the message of the assistant before them: one reply is several items."""
    found = list[dict[str, Any]]()
    for message in messages:
        if message.get("tool_calls") and found and found[-1]["role"] == "assistant":
            found[-1]["tool_calls"] = [*found[-1].get("tool_calls", ()), *message["tool_calls"]]
        else:
            found.append(message)
    return found


def _form(body: Fields) -> dict[str, Any]:
    """The option that holds a reply to the JSON of `text.format`, if it does."""
    if (text := body.inner("text")) is None:
        return {}
    text.ignore("verbosity")
    form = text.inner("format")
    text.finish()
    if form is None:
        return {}
    kind = form.word("type", "text", "json_object", "json_schema")
    if kind == "json_schema":
        return {"json_schema": schema_of(form)}
    form.finish()
    return {"json_schema": {"type": "object"}} if kind == "json_object" else {}


def _effort(body: Fields) -> str | None:
    if (reasoning := body.inner("reasoning")) is None:
        return None
    effort = reasoning.word("effort", *EFFORTS)
    reasoning.ignore("summary", "generate_summary")
    reasoning.finish()
    return effort


def _tools(body: Fields) -> dict[str, Any]:
    tools, choice = [_definition(tool) for tool in body.objects("tools")], body.get("tool_choice")
    if isinstance(choice, dict) and (named := body.inner("tool_choice")):
        named.only("type", "function")
        choice = {"type": "function", "function": {"name": named.required("name")}}
    elif not isinstance(choice, str | None):
        raise invalid("tool_choice", "must be text, or an object with a function")
    return chosen(tools, choice, parallel_calls(body))


def _definition(tool: Fields) -> dict[str, Any]:
    if (kind := tool.text("type")) != "function":
        raise invalid(tool.path("type"), f"is {kind!r}; only function is supported")
    tool.ignore("strict")
    found: dict[str, Any] = {"name": tool.required("name"), "parameters": tool.mapping("parameters") or {}}
    if description := tool.text("description"):
        found["description"] = description
    tool.finish()
    return {"type": "function", "function": found}
