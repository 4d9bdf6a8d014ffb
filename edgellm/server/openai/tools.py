"""The fields of requests about tools."""

from collections.abc import Sequence
from typing import Any

from edgellm.errors import OptionError
from edgellm.server.failures import RequestError, invalid
from edgellm.server.fields import Fields
from edgellm.tools.tool import tools_of
from edgellm.tools.use import given_tools


def tool_options(body: Fields) -> dict[str, Any]:
    """`tools` and `tool_choice` as `Chat.reply` takes them. Raises RequestError."""
    tools, choice = definitions(body), body.get("tool_choice")
    if not isinstance(choice, str | dict | None):
        raise invalid("tool_choice", "must be text, or an object with a function")
    return chosen(tools, choice, parallel_calls(body))


def definitions(body: Fields) -> list[dict[str, Any]]:
    """`tools`. Raises RequestError."""
    return [_definition(tool) for tool in body.objects("tools")]


def parallel_calls(body: Fields) -> bool:
    """Whether a reply may have several calls: `parallel_tool_calls`, by default true."""
    return body.flag("parallel_tool_calls", default=True)


def chosen(tools: Sequence[Any], choice: Any, parallel: bool = True) -> dict[str, Any]:
    """The options for these definitions. Raises RequestError."""
    if not tools:
        if choice in (None, "auto", "none"):
            return {}
        raise invalid("tool_choice", "asks for a call, but there are no tools")
    try:
        tools_of(tools)
    except OptionError as error:
        raise RequestError(400, str(error), "tools", "invalid_value") from None
    try:
        given_tools(tools, choice)
    except OptionError as error:
        message = str(error).removeprefix("option ")
        raise RequestError(400, message, "tool_choice", "invalid_value") from None
    return {"tools": list(tools), "tool_choice": choice or "auto", "parallel_tool_calls": parallel}


def _definition(tool: Fields) -> dict[str, Any]:
    """A definition. OpenAI's field `strict` asks for what every call gets."""
    if (kind := tool.text("type")) != "function":
        raise invalid(tool.path("type"), f"is {kind!r}; only function is supported")
    if (function := tool.mapping("function")) is None:
        raise invalid(tool.path("function"), "is missing")
    tool.finish()
    return {"type": "function", "function": {key: value for key, value in function.items() if key != "strict"}}
