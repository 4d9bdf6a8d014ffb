"""`edgellm.Chat`: a conversation in the model's own chat template, with a prefix cache."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from edgellm.arguments import GenerationArguments, ReplyArguments
from edgellm.errors import EdgeLLMError, EdgeLLMWarning
from edgellm.fmt import printable
from edgellm.generate.generation import Generation
from edgellm.generate.generator import Generator
from edgellm.generate.prefix_cache import PrefixCache
from edgellm.generate.prompt_builder import PromptBuilder
from edgellm.generate.results import Completion
from edgellm.generate.timing import PrefillProgress
from edgellm.guides.thinking import is_thought
from edgellm.options import ChatOptions, check_text, validate
from edgellm.options.checks import integer
from edgellm.text.conversation import Message, check_messages, has_calls
from edgellm.text.inspection import Inspection
from edgellm.text.prompts import own_template
from edgellm.text.reply_format import ReplyReader
from edgellm.text.template import named_source
from edgellm.tools.call_format import AUTO, NONE
from edgellm.tools.calls import ToolCall
from edgellm.tools.collector import CallCollector
from edgellm.tools.formats import call_format, prompts_of
from edgellm.tools.running import Approve, can_run, run_calls
from edgellm.tools.use import ToolChoice, ToolUse, check_options, given_tools, no_calls

if TYPE_CHECKING:
    from edgellm.generate.async_generation import AsyncGeneration


class Chat:
    """A conversation, made by `Model.chat`. `messages` are dicts of `role` and `content`, the system prompt first.

    A chat generates one reply at a time. Its keys and values stay cached, so a turn computes only its new tokens.
    """

    def __init__(
        self,
        generator: Generator,
        system: str | None = None,
        *,
        template: str | None = None,
        template_args: Mapping[str, Any] | None = None,
        overflow: str | None = None,
        tools: Iterable[Any] | None = None,
        tool_choice: ToolChoice | None = None,
        **options: Unpack[GenerationArguments],
    ) -> None:
        """`template` replaces the model's own: its Jinja2 source, or the name of a built-in one such as "chatml".

        `template_args` are further variables for the template, with values that JSON can represent.

        `overflow` is the policy for a conversation that is longer than the context (`edgellm.options.ChatOptions`).

        `tools` are functions, or OpenAI definitions of functions, that each reply may call. `tool_choice` is "auto",
        "none", "required", the name of the tool to call, or OpenAI's object with that name.

        Raises EdgeLLMError without a usable template, OptionError for the other options.
        """
        tokenizer = generator.tokenizer
        own = tokenizer.chat_template
        source = own_template(generator.session.name, own) if template is None else named_source(template)
        generator.options(**options)
        self._overflow, self._template_args = ChatOptions.from_kwargs(overflow=overflow).overflow, template_args
        self._generator, self._options = generator, options
        self._builders = dict[str, PromptBuilder]()
        self._prompts = self._builder(source)
        self._tool_source = source if template is not None else tokenizer.tool_template or source
        self._tools = given_tools(tools, tool_choice)
        self._use(None, None)
        self._prefix_cache = PrefixCache(generator.session)
        self._running: Generation | None = None
        self.messages: list[dict[str, Any]] = []
        if system is not None:
            check_text("system", system)
            self.messages.append({"role": "system", "content": system})

    def __repr__(self) -> str:
        return f"<edgellm.Chat with {self._generator.session.name}, messages: {len(self.messages)}>"

    @property
    def thinking(self) -> bool:
        """Whether the template reads `enable_thinking`; if so, pass True or False for it in `template_args`."""
        return "enable_thinking" in self._prompts.template.names

    @property
    def effort(self) -> bool:
        """Whether the template reads `reasoning_effort`; if so, pass "low", "medium" or "high" in `template_args`."""
        return "reasoning_effort" in self._prompts.template.names

    def send(
        self, text: str, *, max_steps: int = 1, approve: Approve | None = None, **options: Unpack[ReplyArguments]
    ) -> Completion:
        """Send a user message and wait for the whole reply; options and errors are those of `stream`.

        With `max_steps` above 1, functions that the reply calls are run, their results sent, and so on, until a reply
        has no calls or there were `max_steps` replies: the last one is returned. `approve(call)` may refuse a call. The
        model is told of refusals and of what a function raises. A reply that calls a tool without a function, of which
        there is only a definition, is returned, and none of its calls is run. From the second reply on the model need
        not call.
        """
        options.setdefault("logprobs", self._options.get("logprobs", False))
        steps = validate("max_steps", integer(1), max_steps)
        completion = self.stream(text, **options).completion()
        for _ in range(steps - 1):
            if completion.finish_reason != "tool_calls" or not self._run(completion.tool_calls, approve, options):
                break
            if options.get("tool_choice", self._tools[1]) != NONE:
                options["tool_choice"] = AUTO
            completion = self._start(self.messages, None, self.messages.append, **options).completion()
        return completion

    def _run(self, calls: Sequence[ToolCall], approve: Approve | None, options: ReplyArguments) -> bool:
        """Append the results of calls to the messages; False if one has no function."""
        use = self._use(options.get("tools"), options.get("tool_choice"))
        if use is None or not can_run(use.tools, calls):
            return False
        self.messages += run_calls(use.tools, calls, approve)
        return True

    def stream(
        self, text: str, *, progress: PrefillProgress | None = None, **options: Unpack[ReplyArguments]
    ) -> Generation:
        """Send a user message; returns the reply token by token, with the options and errors of `reply`.

        `messages` gets both at the end. Of a cancelled reply it gets the text so far; if there is no token yet, it gets
        neither message.
        """
        check_text("text", text)
        self._end_running()
        user_message, messages = {"role": "user", "content": text}, self.messages

        def keep(reply: dict[str, Any]) -> None:
            messages.extend([user_message, reply])

        return self._start([*messages, user_message], progress, keep, **options)

    async def asend(
        self, text: str, *, max_steps: int = 1, approve: Approve | None = None, **options: Unpack[ReplyArguments]
    ) -> Completion:
        """As `send`, for `asyncio`. When the task that waits is cancelled, so is the reply; it ends first."""
        from edgellm.generate.async_generation import in_thread  # imports asyncio

        return await in_thread(
            partial(self.send, text, max_steps=max_steps, approve=approve, **options), cancel=self.cancel
        )

    def astream(self, text: str, **options: Unpack[ReplyArguments]) -> "AsyncGeneration":
        """As `stream`, for `asyncio`: `async for token in chat.astream(…)`. Errors come with the first token."""
        from edgellm.generate.async_generation import AsyncGeneration  # imports asyncio

        return AsyncGeneration(lambda: self.stream(text, **options))

    def reply(
        self,
        messages: Sequence[Message],
        *,
        begun: str = "",
        progress: PrefillProgress | None = None,
        **options: Unpack[ReplyArguments],
    ) -> Generation:
        """The reply to any conversation, token by token; `self.messages` are neither read nor changed.

        The last message must be from the user or a tool. `begun` is the beginning of the reply: the model continues
        it, and the text of the reply is the continuation. Options are those of `Model.stream`, and `template_args` and
        `overflow`, which take precedence over those of the chat. A reply that still runs is closed first. Raises the
        errors of `Model.stream`, and EdgeLLMError for messages that have no reply.
        """
        check_messages(messages)
        if not messages:
            raise EdgeLLMError("there are no messages: give at least one, the last from user or tool")
        if (last := messages[-1]["role"]) not in ("user", "tool"):
            raise EdgeLLMError(f"the last message is from {printable(last)}: end with one from user or tool")
        self._end_running()
        return self._start(messages, progress, begun=begun, **options)

    def _start(
        self,
        messages: Sequence[Message],
        progress: PrefillProgress | None,
        on_end: Callable[[dict[str, Any]], None] = lambda message: None,
        template_args: Mapping[str, Any] | None = None,
        overflow: str | None = None,
        begun: str = "",
        tools: Iterable[Any] | None = None,
        tool_choice: ToolChoice | None = None,
        **options: Unpack[GenerationArguments],
    ) -> Generation:
        """`on_end` is called with the message of a reply that has ended."""
        check_text("begun", begun)
        generator, use = self._generator, self._use(tools, tool_choice)
        prompts, args = self._prompts_of(messages, use), _with_definitions(template_args, use)
        timer, chosen = generator.start_timer(), generator.options(**{**self._options, **options})
        if use:
            check_options(use.choice, chosen)
            use = replace(use, parallel=prompts.takes_several_calls())
        prompt = prompts.fit(messages, chosen.max_tokens, args, overflow, begun)
        start = prompts.start(prompt, begun)
        reader = None if chosen.special else prompts.reader(begun)
        if use and use.choice != NONE:
            opened = "<think>\n" if not begun and is_thought(start, generator.tokenizer) else begun
            reader = use.reader(messages, opened, reader)

        def end(text: str) -> None:
            on_end(_message(text, reader))

        self._running = generator.start(prompt, chosen, timer, self._prefix_cache, progress, end, reader, start, use)
        return self._running

    def _use(self, tools: Iterable[Any] | None, choice: ToolChoice | None) -> ToolUse | None:
        """The tools of a reply; None stands for those of the chat. Raises OptionError, and EdgeLLMError."""
        found, name = self._tools if tools is None else given_tools(tools, choice)
        if tools is None and choice is not None:
            found, name = given_tools(found.values(), choice)
        if not found:
            return None
        if (form := call_format(self._tool_source)) is None:
            raise no_calls(self._generator.session.name)
        return ToolUse(found, name, form, self._generator.tokenizer.special_ids(form.marks))

    def _builder(self, source: str) -> PromptBuilder:
        """The prompts in a chat template. Raises EdgeLLMError if it is not valid."""
        if source not in self._builders:
            generator, prompts = self._generator, prompts_of(self._generator.tokenizer, source)
            self._builders[source] = PromptBuilder(generator.session, prompts, self._template_args, self._overflow)
        return self._builders[source]

    def _prompts_of(self, messages: Sequence[Message], use: ToolUse | None) -> PromptBuilder:
        """The prompts of a conversation: a file may have a template of its own for those with tools."""
        prompts = self._builder(self._tool_source) if use or has_calls(messages) else self._prompts
        prompts.template.resume()
        if use and "tools" not in prompts.template.names:
            problem = (
                "the chat template does not show the model which tools there are: describe them in the system prompt"
            )
            warnings.warn(problem, EdgeLLMWarning, stacklevel=4)
        return prompts

    def _end_running(self) -> None:
        if self._running:
            self._running.close()

    def count(self, messages: Sequence[Message], *, template_args: Mapping[str, Any] | None = None) -> int:
        """The number of tokens in the prompt of these messages; the last may have any role. Raises EdgeLLMError."""
        check_messages(messages)
        use = self._use(None, None)
        return len(self._prompts_of(messages, use).ids(messages, _with_definitions(template_args, use)))

    def inspect(
        self,
        messages: Sequence[Message],
        *,
        template_args: Mapping[str, Any] | None = None,
        overflow: str | None = None,
        **options: Unpack[GenerationArguments],
    ) -> Inspection:
        """The prompt of these messages in detail, with warnings of possible mistakes; the last may have any role.

        The options are those of `reply`. Raises OptionError, and EdgeLLMError for malformed messages; other problems
        are warnings.
        """
        check_messages(messages)
        use = self._use(None, None)
        chosen = self._generator.options(**{**self._options, **options})
        args = _with_definitions(template_args, use)
        return self._prompts_of(messages, use).inspect(messages, chosen.max_tokens, args, overflow)

    def cancel(self) -> None:
        """Cancel the running reply, from any thread; without one, nothing happens.

        While the prompt is rendered, the call that asked for the reply raises EdgeLLMError.
        """
        for prompts in list(self._builders.values()):
            prompts.template.stop()
        if self._running:
            self._running.cancel()


def _with_definitions(template_args: Mapping[str, Any] | None, use: ToolUse | None) -> Mapping[str, Any] | None:
    """Template arguments with the definitions of tools among them."""
    return {**(template_args or {}), "tools": use.definitions} if use else template_args


def _message(text: str, reader: ReplyReader | None) -> dict[str, Any]:
    """The message of a reply. A call that does not parse is text of it, so that nothing of the reply is lost."""
    if not isinstance(reader, CallCollector):
        return {"role": "assistant", "content": text}
    text += "".join(broken.text for broken in reader.broken)
    if not reader.calls:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": text or None, "tool_calls": [call.as_message() for call in reader.calls]}
