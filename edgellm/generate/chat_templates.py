"""The templates of a chat: its own, and the one for conversations with tools, which some files have beside it."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from edgellm.errors import EdgeLLMWarning
from edgellm.generate.generator import Generator
from edgellm.generate.prompt_builder import PromptBuilder
from edgellm.text.conversation import Message, has_calls
from edgellm.tools.formats import prompts_of
from edgellm.tools.use import ToolUse


class ChatTemplates:
    """Prompts of a chat, with its template arguments and overflow policy. `own` builds those without tools."""

    def __init__(
        self, generator: Generator, source: str, tool_source: str, args: Mapping[str, Any] | None, overflow: str
    ) -> None:
        """`source` and `tool_source` are the two templates. Raises EdgeLLMError if the first one is not valid."""
        self._generator, self._tool_source, self._args, self._overflow = generator, tool_source, args, overflow
        self._builders = dict[str, PromptBuilder]()
        self.own = self._builder(source)

    def of(self, messages: Sequence[Message], use: ToolUse | None) -> PromptBuilder:
        """The prompts of a conversation whose reply may use tools. Raises EdgeLLMError for a template not valid."""
        prompts = self._builder(self._tool_source) if use or has_calls(messages) else self.own
        prompts.template.resume()
        if use and "tools" not in prompts.template.names:
            problem = "the chat template does not show the model which tools there are"
            warnings.warn(f"{problem}: describe them in the system prompt", EdgeLLMWarning, stacklevel=6)
        return prompts

    def stop(self) -> None:
        """Make the current rendering, and all until the next prompt, fail at once. Any thread may call it."""
        for prompts in list(self._builders.values()):
            prompts.template.stop()

    def _builder(self, source: str) -> PromptBuilder:
        if source not in self._builders:
            generator, prompts = self._generator, prompts_of(self._generator.tokenizer, source)
            self._builders[source] = PromptBuilder(generator.session, prompts, self._args, self._overflow)
        return self._builders[source]
