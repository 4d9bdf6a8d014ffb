"""From options of edgellm to the body of a request. Only options that are given are sent: the server has defaults."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgellm.errors import OptionError
from edgellm.options import GenerationOptions
from edgellm.remote.dialects import ServerFields
from edgellm.remote.messages import sent_messages

if TYPE_CHECKING:
    from edgellm.guides.spec import GuideSpec

_SAMPLING = {"temp": "temperature"} | {
    name: name
    for name in (
        *("top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty", "penalty_last_n"),
        *("seed", "think_max"),
    )
}
"""Options, and the fields that most servers have for them."""

_LOWEST_BIAS = -100.0
"""OpenAI's number for a token that never comes; JSON has no infinite numbers."""

_ON_THIS_MACHINE = {
    "special": "shows control tokens, which no server sends",
    "overflow": "drops turns by their tokens, which only the server counts",
}
"""Options of replies that need the model on this machine."""


class RequestOptions:
    """The options of a reply: `generation` are those of `GenerationOptions`, checked; `given` those that are sent.

    Of the rest, `tools`, `tool_choice`, `parallel_tool_calls` and `template_args` are those of `Chat.reply`. `spec` is
    what holds the reply to a form. Raises OptionError.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.given = {name: value for name, value in options.items() if value not in (None, (), {})}
        for name, why in _ON_THIS_MACHINE.items():
            if self.given.pop(name, False):
                raise OptionError(f"option {name} {why}: leave it out with a server")
        self.template_args = dict(self.given.pop("template_args", {}))
        self.tools = self.given.pop("tools", None)
        self.tool_choice = self.given.pop("tool_choice", None)
        self.parallel_tool_calls = self.given.pop("parallel_tool_calls", None)
        self.generation = GenerationOptions.from_kwargs(**self.given)
        self.spec = _spec(self.generation)


def _spec(options: GenerationOptions) -> "GuideSpec | None":
    if not options.form:
        return None
    from edgellm.guides.spec import spec_of  # on demand

    return spec_of(options)


def chat_body(
    messages: Sequence[Mapping[str, Any]], options: RequestOptions, dialect: ServerFields, begun: str = ""
) -> dict[str, Any]:
    """The body for `/chat/completions`; `begun` is the beginning of the reply. Raises OptionError."""
    body = {"messages": sent_messages(messages), **_common(options, dialect, dialect.limit)}
    return body | _thinking(options.template_args) | _tools(options) | _continuing(body["messages"], begun, dialect)


def _continuing(messages: Sequence[Mapping[str, Any]], begun: str, dialect: ServerFields) -> dict[str, Any]:
    """The fields of a reply that was begun: its text is sent as it is, thoughts included."""
    if not begun:
        return {}
    if dialect.continuing is None:
        raise OptionError("option begun is not known to this server: ask for another reply")
    return {"messages": [*messages, {"role": "assistant", "content": begun}], **dialect.continuing}


def completion_body(prompt: str, options: RequestOptions, dialect: ServerFields) -> dict[str, Any]:
    """The body for `/completions`, which continues plain text. Raises OptionError."""
    return {"prompt": prompt, **_common(options, dialect, "max_tokens")}


def _common(options: RequestOptions, dialect: ServerFields, limit: str) -> dict[str, Any]:
    """The fields that both routes have: sampling, the end of the text, and its form."""
    checked, body = options.generation, dict[str, Any]()
    for name, field in _SAMPLING.items():
        if name in options.given:
            if (known := dialect.fields.get(name, field)) is None:
                raise OptionError(f"option {name} is not known to this server: leave it out")
            body[known] = getattr(checked, name)
    if checked.max_tokens is not None:
        body[limit] = checked.max_tokens
    if checked.stop:
        body["stop"] = list(checked.stop)
    if checked.logit_bias:
        body["logit_bias"] = {str(token): max(_LOWEST_BIAS, bias) for token, bias in checked.logit_bias.items()}
    return body | _form(options.spec, dialect)


def _form(spec: "GuideSpec | None", dialect: ServerFields) -> dict[str, Any]:
    """The fields that hold the reply to a form."""
    if spec is None:
        return {}
    if spec.kind == "json_schema":
        schema = json.loads(spec.source)
        named = {"name": "reply", "schema": {} if schema is True else schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if form := dialect.forms.get(spec.kind):
        return dict(form(spec.source))
    raise OptionError(f"option {spec.kind} is not known to this server, as far as edgellm knows it: give json_schema")


def _thinking(template_args: Mapping[str, Any]) -> dict[str, Any]:
    """The fields for the variables of the chat template; the effort of thinking has one of its own."""
    rest = {name: value for name, value in template_args.items() if name != "reasoning_effort"}
    effort = template_args.get("reasoning_effort")
    return ({"chat_template_kwargs": rest} if rest else {}) | ({"reasoning_effort": effort} if effort else {})


def _tools(options: RequestOptions) -> dict[str, Any]:
    """The fields of tools and calls."""
    if not options.tools:
        return {}
    from edgellm.tools.call_format import AUTO, NONE, REQUIRED  # on demand, as they import more
    from edgellm.tools.use import check_options, given_tools

    tools, choice = given_tools(options.tools, options.tool_choice)
    check_options(choice, options.generation)
    body: dict[str, Any] = {"tools": [dict(tool.definition) for tool in tools.values()]}
    if choice != AUTO:
        word = choice in (NONE, REQUIRED)
        body["tool_choice"] = choice if word else {"type": "function", "function": {"name": choice}}
    return body | ({} if options.parallel_tool_calls is not False else {"parallel_tool_calls": False})
