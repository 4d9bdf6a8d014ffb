"""The prompts of a chat: the template, its arguments and the overflow policy applied to messages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.generate.overflow import PromptFitter, pinned
from edgellm.generate.request import TokensPrompt
from edgellm.generate.session import Session
from edgellm.guides.thinking import ReplyStart
from edgellm.options import ChatOptions
from edgellm.text.conversation import Message
from edgellm.text.inspection import Inspection, inspect
from edgellm.text.prompts import ChatPrompts
from edgellm.text.reply_format import ReplyReader
from edgellm.text.template import ChatTemplate

TemplateArgs = Mapping[str, Any] | None
"""Template arguments of one reply; they take precedence over those of the chat."""


class PromptBuilder:
    """Builds prompts from messages, with the template arguments and the overflow policy of a chat as defaults."""

    def __init__(self, session: Session, prompts: ChatPrompts, template_args: TemplateArgs, overflow: str) -> None:
        self._session, self._prompts = session, prompts
        self._template_args, self._overflow = dict(template_args or {}), overflow

    @property
    def template(self) -> ChatTemplate:
        """The chat template."""
        return self._prompts.template

    def reader(self, begun: str) -> ReplyReader | None:
        """A reader of a reply that begins with `begun`, if the template has a format of replies."""
        return self._prompts.reader(begun)

    def takes_several_calls(self) -> bool:
        """Whether the template takes several calls in one message. Raises EdgeLLMError."""
        return self._prompts.takes_several_calls()

    def start(self, prompt: TokensPrompt, begun: str) -> ReplyStart:
        """Where a reply begins, whose text begins with `begun`."""
        return ReplyStart.of(prompt.ids, begun, self.template)

    def ids(self, messages: Sequence[Message], template_args: TemplateArgs) -> list[int]:
        """The token ids of all messages, however many. Raises EdgeLLMError when the template fails."""
        return self._ids("", self._args(template_args), messages)

    def fit(
        self,
        messages: Sequence[Message],
        max_tokens: int | None,
        template_args: TemplateArgs,
        overflow: str | None,
        begun: str = "",
    ) -> TokensPrompt:
        """The prompt of a reply that begins with `begun`, without the messages that the policy leaves out.

        Raises ContextOverflowError if it still does not fit, OptionError for an unknown policy, and EdgeLLMError.
        """
        policy = ChatOptions.from_kwargs({"overflow": self._overflow}, overflow=overflow).overflow
        tokenize = partial(self._ids, begun, self._args(template_args))
        return PromptFitter(messages, tokenize, self._session, max_tokens).prompt(policy)

    def inspect(
        self,
        messages: Sequence[Message],
        max_tokens: int | None,
        template_args: TemplateArgs,
        overflow: str | None,
    ) -> Inspection:
        """The prompt of these messages in detail; problems are warnings in it. Raises OptionError."""
        warnings, kept = list[str](), list(messages)
        try:
            left_out = self.fit(messages, max_tokens, template_args, overflow).truncation
            first = pinned(messages)
            del kept[first : first + left_out.messages]
            if left_out.messages:
                warnings.append(f"{left_out.messages} messages ({left_out.tokens:,} tokens) are left out")
        except OptionError:
            raise
        except EdgeLLMError as error:
            warnings.append(str(error))
        found = inspect(self._prompts.tokenizer, self._prompts, kept, **self._args(template_args))
        if not messages and warnings:
            return replace(found, warnings=["there is no message yet, and this chat template needs one"])
        return replace(found, warnings=list(dict.fromkeys(warnings + found.warnings)))

    def _ids(self, begun: str, args: Mapping[str, Any], messages: Sequence[Message]) -> list[int]:
        return self._prompts.ids(messages, begun, **args)

    def _args(self, template_args: TemplateArgs) -> dict[str, Any]:
        return {**self._template_args, **(template_args or {})}
