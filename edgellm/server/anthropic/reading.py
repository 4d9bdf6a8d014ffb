"""The fields of requests to /v1/messages."""

from collections.abc import Iterator
from typing import Any

from edgellm.server.anthropic.answers import MessageMaker
from edgellm.server.asked import Asked
from edgellm.server.failures import RequestError, invalid
from edgellm.server.fields import Fields
from edgellm.server.openai.sampling import checked
from edgellm.server.openai.tools import chosen
from edgellm.server.work import Work
from edgellm.text.thought import CLOSING, OPENING

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_IGNORED = ("metadata", "service_tier", "container", "context_management", "betas")


def read_messages(body: Fields) -> Asked:
    """What a body asks for. Raises RequestError and OptionError."""
    streams, work = body.flag("stream"), _work(body)
    stops = list(work.options.get("stop") or ())
    return Asked(work, lambda model, stamp: MessageMaker(model, stamp, stops), streams)


def _work(body: Fields) -> Work:
    name, limit = body.required("model"), body.integer("max_tokens", 1)
    if limit is None:
        raise RequestError(400, "max_tokens is missing", "max_tokens")
    tools = _tools(body)
    think, think_max = _thinking(body)
    options = {
        "max_tokens": limit,
        "temp": body.option("temperature", "temp"),
        "top_p": body.option("top_p", "top_p"),
        "top_k": body.option("top_k", "top_k"),
        "stop": body.entries("stop_sequences"),
        "think_max": think_max,
        "logprobs": False,
        **tools,
    }
    messages, begun = _conversation(body)
    body.ignore(*_IGNORED)
    body.finish()
    found = {option: value for option, value in options.items() if value is not None}
    return Work(name, [messages], checked(found), think=think, begun=begun)


def _conversation(body: Fields) -> tuple[list[dict[str, Any]], str]:
    """The messages, and the beginning of the reply, which a last message from the assistant is."""
    found = [{"role": "system", "content": system}] if (system := _text(body, "system")) else []
    for message in body.objects("messages"):
        found += _messages(message)
    if not any(message["role"] != "system" for message in found):
        raise RequestError(400, "messages must have at least one message", "messages")
    if found[-1]["role"] == "assistant" and not found[-1].get("tool_calls"):
        return found[:-1], str(found.pop()["content"])
    return found, ""


def _messages(message: Fields) -> Iterator[dict[str, Any]]:
    """The messages that one of Anthropic's is: the results of calls are messages of their own."""
    role = message.required_word("role", "user", "assistant", "system")
    if isinstance(content := message.text_or_list("content", "blocks"), str):
        message.finish()
        yield {"role": role, "content": content}
        return
    if content is None:
        raise RequestError(400, f"{message.path('content')} is missing", message.path("content"))
    texts, calls = list[str](), list[dict[str, Any]]()
    for block in message.objects("content"):
        if result := _read(block, texts, calls):
            yield result
    message.finish()
    if texts or calls:
        yield {"role": role, "content": "".join(texts), **({"tool_calls": calls} if calls else {})}


def _read(block: Fields, texts: list[str], calls: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Read a block into texts or calls; returns the message that it is itself, if it is one."""
    block.ignore("cache_control", "citations", "signature", "data", "is_error")
    kind, result = block.text("type"), None
    if kind == "text":
        texts.append(block.required("text"))
    elif kind == "thinking":
        texts.append(f"{OPENING}{block.required('thinking')}{CLOSING}")
    elif kind == "tool_use":
        function = {"name": block.required("name"), "arguments": block.mapping("input") or {}}
        calls.append({"id": block.required("id"), "type": "function", "function": function})
    elif kind == "tool_result":
        call = block.required("tool_use_id")
        result = {"role": "tool", "tool_call_id": call, "content": _text(block, "content")}
    elif kind != "redacted_thinking":
        raise invalid(block.path("type"), "is not supported: only text, thinking, tool_use and tool_result are")
    block.finish()
    return result


def _text(fields: Fields, name: str) -> str:
    """Text, or blocks of it."""
    if not isinstance(value := fields.text_or_list(name, "blocks of text"), list):
        return value or ""
    texts = list[str]()
    for block in fields.objects(name):
        block.only("type", "text")
        block.ignore("cache_control", "citations")
        texts.append(block.required("text"))
        block.finish()
    return "".join(texts)


def _tools(body: Fields) -> dict[str, Any]:
    """`tools`, `tool_choice` and `parallel_tool_calls` as `Chat.reply` takes them."""
    tools = [_definition(tool) for tool in body.objects("tools")]
    if (choice := body.inner("tool_choice")) is None:
        return chosen(tools, None)
    kind = choice.word("type", *_CHOICES, "tool")
    name = choice.required("name") if kind == "tool" else _CHOICES.get(kind or "auto")
    parallel = not choice.flag("disable_parallel_tool_use")
    choice.finish()
    named = {"type": "function", "function": {"name": name}} if kind == "tool" else name
    return chosen(tools, named, parallel)


def _definition(tool: Fields) -> dict[str, Any]:
    tool.only("type", "custom")
    tool.ignore("cache_control", "strict")
    function = {"name": tool.required("name"), "parameters": tool.mapping("input_schema") or {}}
    if description := tool.text("description"):
        function["description"] = description
    tool.finish()
    return {"type": "function", "function": function}


def _thinking(body: Fields) -> tuple[bool | None, int | None]:
    """Whether the model is asked to think, and the most tokens of it."""
    if (thinking := body.inner("thinking")) is None:
        return None, None
    kind, most = thinking.word("type", "enabled", "disabled", "adaptive"), thinking.integer("budget_tokens", 1)
    thinking.ignore("display")
    thinking.finish()
    return kind != "disabled", most
