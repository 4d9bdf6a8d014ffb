"""Asks a model for the reply to a case: held to its form by a guide, and without one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from edgellm.chat import Chat
from edgellm.errors import EdgeLLMError, PromptError
from edgellm.evaluation.cases import GUIDED, Case
from edgellm.evaluation.scoring import Reply
from edgellm.fmt import printable, shown_path
from edgellm.generate.results import Token
from edgellm.guides.thinking import ReplyStart, is_thought
from edgellm.model import Model
from edgellm.text.prompts import ChatPrompts
from edgellm.text.template import named_source, template_title
from edgellm.text.thought import OPENING, Thought
from edgellm.text.tokenizer import Tokenizer
from edgellm.tools.chat_tools import ChatTools
from edgellm.tools.collector import CallCollector
from edgellm.tools.formats import call_format, prompts_of
from edgellm.tools.use import ToolUse, with_definitions


@dataclass(frozen=True)
class EvalSettings:
    """How replies are generated. `max_tokens` limits each, `template` is a source or the name of a built-in one."""

    temp: float = 0.0
    seed: int = 0
    max_tokens: int = 1024
    think_max: int | None = None
    template: str | None = None
    template_args: Mapping[str, Any] = field(default_factory=dict)


def check_template(model: str, tokenizer: Tokenizer, settings: EvalSettings) -> None:
    """Raises EdgeLLMError if a model has no chat template, and the settings neither."""
    if tokenizer.chat_template is None and settings.template is None:
        raise EdgeLLMError(f"{model} has no chat template, and replies need one: give it as --template NAME|FILE")


def tool_source(tokenizer: Tokenizer, settings: EvalSettings) -> str:
    """The source of the chat template for replies with tools. Raises OptionError for an unknown name."""
    return tokenizer.tool_template or "" if settings.template is None else named_source(settings.template)


class Respondent:
    """A model that replies to cases, in its chat template. Each reply depends on its case and the settings alone."""

    def __init__(self, model: Model, settings: EvalSettings) -> None:
        """Raises EdgeLLMError without a usable template, OptionError for impossible settings."""
        self._tokenizer, self._settings = model.tokenizer, settings
        given = None if settings.template is None else named_source(settings.template)
        self._tool_source = tool_source(model.tokenizer, settings)
        title = template_title(settings.template, shown_path(model.file.path))
        self._tools = ChatTools(model.tokenizer, title, self._tool_source, None, None, None)
        self._chat = self._tool_chat = self._opened(model, given)
        if call_format(self._tool_source) and self._tool_source != (given or model.tokenizer.chat_template):
            self._tool_chat = self._opened(model, self._tool_source)

    def _opened(self, model: Model, source: str | None) -> Chat:
        chosen = self._settings
        return model.chat(
            template=source,
            template_args=chosen.template_args,
            temp=chosen.temp,
            seed=chosen.seed,
            think_max=chosen.think_max,
            logprobs=False,
        )

    def replies(self, case: Case) -> tuple[Reply, Reply | None]:
        """The reply, and for a case of a guided kind that without a guide. Raises EdgeLLMError, naming the case."""
        try:
            if case.kind == "calls":
                return self._guided_calls(case), self._unguided_calls(case)
            return (self._guided_json(case), self._text(case)) if case.kind in GUIDED else (self._text(case), None)
        except PromptError as error:
            raise PromptError(f"case {printable(case.id)}: {error.problem}", error.advice) from None
        except EdgeLLMError as error:
            raise type(error)(f"case {printable(case.id)}: {error}") from None

    def _limit(self, case: Case) -> int:
        return self._settings.max_tokens + case.extra_tokens

    def _guided_json(self, case: Case) -> Reply:
        limit, schema = self._limit(case), case.json_schema
        reply = self._chat.reply(case.messages, max_tokens=limit, json_schema=schema, partial=True)
        for _ in reply:
            pass
        return Reply(reply.answer or "")  # as text: the score tells whether Python reads it

    def _text(self, case: Case) -> Reply:
        return Reply(_answer(self._chat.reply(case.messages, max_tokens=self._limit(case)).completion().text))

    def _guided_calls(self, case: Case) -> Reply:
        tools = list(case.tools.values())
        found = self._tool_chat.reply(case.messages, max_tokens=self._limit(case), tools=tools).completion()
        return Reply(_answer(found.text), found.tool_calls, found.broken_calls)

    def _unguided_calls(self, case: Case) -> Reply:
        """The reply to the same prompt without a guide.

        The definitions are arguments of the template, so that the chat knows of no tools; its calls are read here.
        """
        use = self._tools.of_reply(case.tools.values(), None)
        assert use is not None  # cases of calls have tools
        args = with_definitions(self._settings.template_args, use)
        reader = self._reader(case, use, args or {})
        tokens = self._tool_chat.reply(case.messages, max_tokens=self._limit(case), template_args=args, special=True)
        text = "".join([*self._read(tokens, reader), reader.flush()])
        return Reply(_answer(text), tuple(reader.calls), tuple(reader.broken))

    def _reader(self, case: Case, use: ToolUse, args: Mapping[str, Any]) -> CallCollector:
        """A reader of the reply to a case with tools, as a chat with these tools would make it."""
        prompts = self._prompts
        start = ReplyStart.of(prompts.ids(case.messages, **args), "", prompts.template)
        begun = OPENING if is_thought(start, self._tokenizer) else ""
        return use.reader(case.messages, begun, prompts.reader(begun))

    @cached_property
    def _prompts(self) -> ChatPrompts:
        return prompts_of(self._tokenizer, self._tool_source)

    def _read(self, tokens: Iterable[Token], reader: CallCollector) -> Iterable[str]:
        for token in tokens:
            if mark := reader.marks.get(token.id):
                yield reader.mark(mark)
            elif token.id not in self._tokenizer.eog_ids:
                yield reader.text(token.text)
            if reader.ended:
                return


def _answer(text: str) -> str:
    """The text behind what the model thinks, also where the prompt began the thought."""
    thought = Thought.of(text)
    return text.rpartition("</think>")[2] if thought.thought is None else thought.answer or ""
