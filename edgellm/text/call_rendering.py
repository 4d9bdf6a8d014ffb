"""How a chat template takes the calls of tools in messages.

Some templates write arguments as JSON themselves, others add them to a text and need JSON. Some want no content beside
calls. Some show no calls: their makers expect them in the content, as the model wrote them. A trial conversation tells
which, since no template says so.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from edgellm.errors import EdgeLLMError
from edgellm.text.conversation import Message, arguments_of
from edgellm.text.rendered_prompt import RenderedPrompt

CALLS_ADVICE = "choose a model whose template does (docs/tools.md lists families), or give such a template from a file"
"""What to do about a chat template that shows no calls. None of the built-in templates does."""

Parts = Sequence[tuple[str, bool]]
"""Text in a format: texts, and whether each is of the format, as in `edgellm.text.reply_format`."""

Render = Callable[[Sequence[Message]], RenderedPrompt]
Write = Callable[[Sequence[Mapping[str, Any]]], Parts]
"""Writes the entries of `tool_calls` as a model does."""

_VALUE = "Zhwvq"
_TOOL = "edgellm_trial"
_CALL = {"id": "call00000", "type": "function", "function": {"name": _TOOL, "arguments": {"key": _VALUE}}}
_TRIAL: Sequence[Message] = (
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "call00000", "name": _TOOL, "content": "1"},
)
_MISTAKEN = (f"'key': '{_VALUE}'", f'\\"key\\": \\"{_VALUE}\\"')
"""What a template makes of arguments that it does not take: Python's text of a dict, and JSON in JSON."""


class CallStyle(NamedTuple):
    """Whether a template gets arguments as JSON text, and whether calls without content have no empty text there."""

    as_text: bool = False
    no_content: bool = False

    def applied(self, messages: Sequence[Message]) -> list[Message]:
        """The messages as the template takes them."""
        return [self._message(message) if message.get("tool_calls") else message for message in messages]

    def _message(self, message: Message) -> Message:
        calls = [{**call, "function": {**call["function"], "arguments": None}} for call in message["tool_calls"]]
        for call, given in zip(calls, message["tool_calls"], strict=True):
            arguments = arguments_of(given)
            call["function"]["arguments"] = json.dumps(arguments, ensure_ascii=False) if self.as_text else arguments
        content = message.get("content") or (None if self.no_content else "")
        return {**message, "content": content, "tool_calls": calls}


def find_style(render: Render) -> CallStyle | None:
    """The style in which a template shows calls as they are; None for one that does not show them."""
    for no_content, as_text in product((False, True), repeat=2):
        style = CallStyle(as_text, no_content)
        try:
            text = render(style.applied(_TRIAL)).text
        except EdgeLLMError:
            continue
        if _VALUE in text and not any(mistake in text for mistake in _MISTAKEN):
            return style
    return None


def takes_several_calls(render: Render, style: CallStyle) -> bool:
    """Whether a template, in the style in which it shows calls, takes several of them in one message."""
    second = {**_CALL, "id": "call00001"}
    asked, calling, result = _TRIAL
    several = [asked, {**calling, "tool_calls": [_CALL, second]}, result, {**result, "tool_call_id": "call00001"}]
    try:
        render(style.applied(several))
    except EdgeLLMError:
        return False
    return True


def render_in_content(render: Render, messages: Sequence[Message], write: Write) -> RenderedPrompt:
    """Render messages with their calls as a part of the content. Raises EdgeLLMError if the template drops that."""
    stand_ins, changed = dict[str, Parts](), list[Message]()
    everything = json.dumps(messages, ensure_ascii=False, default=str)
    for message in messages:
        if message.get("tool_calls"):
            stand_in = _unused(everything, len(stand_ins))
            stand_ins[stand_in] = write(message["tool_calls"])
            kept = {key: value for key, value in message.items() if key != "tool_calls"}
            message = {**kept, "content": (message.get("content") or "") + stand_in}
        changed.append(message)
    rendered = render(changed)
    for stand_in, parts in stand_ins.items():
        if rendered.text.count(stand_in) != 1:
            raise EdgeLLMError(f"the chat template shows no calls of tools: {CALLS_ADVICE}")
        rendered = rendered.replaced(stand_in, parts)
    return rendered


def _unused(text: str, number: int) -> str:
    """A word that a text does not have."""
    word = f"Zhwvq{number}q"
    while word in text:
        word = f"Z{word}"
    return word
