"""Replies to conversations: the prompt, the tools and the reader of a reply, and the generation that they give."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from edgellm.arguments import GenerationArguments
from edgellm.generate.chat_templates import ChatTemplates
from edgellm.generate.generation import Generation
from edgellm.generate.generator import Generator
from edgellm.generate.prefix_cache import PrefixCache
from edgellm.generate.timing import PrefillProgress
from edgellm.guides.thinking import is_thought
from edgellm.options import check_text
from edgellm.options.definitions import options_of_reply
from edgellm.text.conversation import Message
from edgellm.text.inspection import Inspection
from edgellm.text.thought import OPENING
from edgellm.tools.call_format import NONE
from edgellm.tools.chat_tools import ChatTools
from edgellm.tools.messages import reply_message
from edgellm.tools.use import ToolChoice, check_options, with_definitions


class ChatReplies:
    """The replies of a chat, to any messages; `options` are those of every reply."""

    def __init__(
        self, generator: Generator, templates: ChatTemplates, tools: ChatTools, options: GenerationArguments
    ) -> None:
        self._generator, self._templates, self._tools, self._options = generator, templates, tools, options
        self._prefix_cache = PrefixCache(generator.session)

    def start(
        self,
        messages: Sequence[Message],
        progress: PrefillProgress | None,
        on_end: Callable[[dict[str, Any]], None] = lambda message: None,
        template_args: Mapping[str, Any] | None = None,
        overflow: str | None = None,
        begun: str = "",
        tools: Iterable[Any] | None = None,
        tool_choice: ToolChoice | None = None,
        parallel_tool_calls: bool | None = None,
        **options: Unpack[GenerationArguments],
    ) -> Generation:
        """The reply to `messages`; `on_end` is called with its message when it has ended.

        Options and errors are those of `edgellm.Chat.reply`.
        """
        check_text("begun", begun)
        generator, use = self._generator, self._tools.of_reply(tools, tool_choice, parallel_tool_calls)
        prompts, args = self._templates.of(messages, use), with_definitions(template_args, use)
        timer, chosen = generator.start_timer(), generator.options(**options_of_reply(self._options, options))
        if use:
            check_options(use.choice, chosen)
            use = replace(use, parallel=use.parallel and prompts.takes_several_calls())
        prompt = prompts.fit(messages, chosen.max_tokens, args, overflow, begun)
        start = prompts.start(prompt, begun)
        in_thought = not begun and is_thought(start, generator.tokenizer)
        opened = OPENING if in_thought else begun
        reader = None if chosen.special else prompts.reader(opened)
        if use and use.choice != NONE:
            reader = use.reader(messages, opened, reader)

        def end(text: str) -> None:
            on_end(reply_message(text, reader))

        cache = self._prefix_cache
        return generator.start(
            prompt, chosen, timer, cache, progress, end, reader, start, use, begins_in_thought=in_thought
        )

    def count(
        self,
        messages: Sequence[Message],
        template_args: Mapping[str, Any] | None,
        tools: Iterable[Any] | None,
        tool_choice: ToolChoice | None,
    ) -> int:
        """See `edgellm.Chat.count`."""
        use = self._tools.of_reply(tools, tool_choice)
        return len(self._templates.of(messages, use).ids(messages, with_definitions(template_args, use)))

    def inspect(
        self,
        messages: Sequence[Message],
        template_args: Mapping[str, Any] | None,
        overflow: str | None,
        tools: Iterable[Any] | None,
        tool_choice: ToolChoice | None,
        options: GenerationArguments,
    ) -> Inspection:
        """See `edgellm.Chat.inspect`."""
        use = self._tools.of_reply(tools, tool_choice)
        chosen = self._generator.options(**options_of_reply(self._options, options))
        args = with_definitions(template_args, use)
        return self._templates.of(messages, use).inspect(messages, chosen.max_tokens, args, overflow)

    def stop(self) -> None:
        """Make the prompt that is rendered, and all until the next one, fail at once. Any thread may call it."""
        self._templates.stop()
