"""The tools of one reply: which there are, which may be called, and how the model writes calls."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.options import GenerationOptions
from edgellm.text.call_rendering import CALLS_ADVICE
from edgellm.text.conversation import Message
from edgellm.text.reply_format import ReplyReader
from edgellm.text.thought_reader import ThinkingReader
from edgellm.tools.call_format import AUTO, NONE, REQUIRED, CallFormat
from edgellm.tools.collector import CallCollector
from edgellm.tools.reply import ReplyCalls
from edgellm.tools.tool import Tool, tools_of

ToolChoice = str | Mapping[str, Any]
"""`tool_choice`: "auto", "none", "required", the name of a tool, or OpenAI's object with a name."""


@dataclass(frozen=True)
class ToolUse:
    """Tools by name; `choice` is "auto", "none", "required" or the name of the tool to call.

    `form` is how calls are written, `tokens` are the ids of those of its marks that the vocabulary has as one token.
    `parallel`: one reply may have several calls.
    """

    tools: Mapping[str, Tool]
    choice: str
    form: CallFormat
    tokens: Mapping[str, int]
    parallel: bool = True

    @property
    def definitions(self) -> list[Mapping[str, Any]]:
        """The definitions, as chat templates get them."""
        return [tool.definition for tool in self.tools.values()]

    @property
    def must_call(self) -> bool:
        """Whether text without a call is no reply."""
        return self.choice not in (AUTO, NONE)

    def grammar(self, thoughts: bool = True) -> str:
        """The grammar of replies. Raises OptionError; see `CallFormat.grammar`."""
        return self.form.grammar(self.tools, self.choice, self.parallel, self.tokens, thoughts)

    def opened_grammar(self) -> str:
        """The grammar of calls without text in front."""
        return self.form.grammar(self.tools, REQUIRED, self.parallel, self.tokens)

    def reader(self, messages: Iterable[Message], begun: str, thoughts: ReplyReader | None) -> CallCollector:
        """Reads the reply to `messages`, whose text begins with `begun`. `thoughts` reads what it thinks."""
        first = sum(len(message.get("tool_calls") or ()) for message in messages)
        calls = self.form.reader(self.tools, self.tokens, begun, first)
        marks = {token: text for text, token in self.tokens.items()}
        return CallCollector(ReplyCalls(calls, marks, thoughts if isinstance(thoughts, ThinkingReader) else None))


def given_tools(tools: Iterable[object] | None, choice: ToolChoice | None) -> tuple[dict[str, Tool], str]:
    """The tools by name, and the choice as a word or a name. Raises OptionError."""
    found = {} if tools is None else tools_of(tools)
    name = _named(choice)
    if not found and name not in (AUTO, NONE):
        shown = printable(name)
        raise OptionError(f"option tool_choice is {shown!r}, but there are no tools; give tools, or take 'auto'")
    if name not in (AUTO, NONE, REQUIRED, *found):
        known = printable(", ".join((AUTO, NONE, REQUIRED, *found)), 200)
        raise OptionError(f"option tool_choice is {printable(name)!r}; take one of: {known}")
    return found, name


def with_definitions(template_args: Mapping[str, Any] | None, use: ToolUse | None) -> Mapping[str, Any] | None:
    """Arguments of a chat template, with the definitions of the tools among them."""
    return {**(template_args or {}), "tools": use.definitions} if use else template_args


def check_options(choice: str, options: GenerationOptions) -> None:
    """Raises OptionError for options that exclude calls of tools; `choice` as in `ToolUse`."""
    advice = "leave one out, or take none as option tool_choice"
    if choice != NONE and options.form:
        raise OptionError(f"option {options.form} and option tools exclude each other: {advice}")
    if choice != NONE and options.beams is not None:
        raise OptionError(f"option beams and option tools exclude each other: {advice}")
    if choice != NONE and options.special:
        raise OptionError("option special would show calls as text, so it and option tools exclude each other")


def _named(choice: ToolChoice | None) -> str:
    """The word or name of a choice."""
    if choice is None:
        return AUTO
    if isinstance(choice, str):
        return choice
    function = choice.get("function") if isinstance(choice, Mapping) and choice.get("type") == "function" else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise OptionError(
            'option tool_choice must be "auto", "none", "required", the name of a tool, or '
            '{"type": "function", "function": {"name": …}}'
        )
    return name


def shows_no_calls(title: str) -> str:
    """The problem of a chat template that shows no calls, and what to do; `title` are words for the template."""
    return f"{title} does not show how the model calls tools: {CALLS_ADVICE}"
