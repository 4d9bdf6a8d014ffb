"""`edgellm.Chat`: a conversation in the model's own chat template, with a prefix cache."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from edgellm.arguments import GenerationArguments, ReplyArguments
from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.generate.chat_replies import ChatReplies
from edgellm.generate.chat_templates import ChatTemplates
from edgellm.generate.generation import Generation
from edgellm.generate.generator import Generator
from edgellm.generate.results import Completion
from edgellm.generate.timing import PrefillProgress
from edgellm.options import ChatOptions, check_text, validate
from edgellm.options.checks import function_or_none, integer
from edgellm.text.conversation import Message, check_messages
from edgellm.text.inspection import Inspection
from edgellm.text.prompts import own_template
from edgellm.text.template import named_source, template_title
from edgellm.tools.chat_tools import ChatTools
from edgellm.tools.formats import call_format
from edgellm.tools.messages import Results, result_messages
from edgellm.tools.running import Approve
from edgellm.tools.tool import tools_of
from edgellm.tools.use import ToolChoice

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
        parallel_tool_calls: bool | None = None,
        **options: Unpack[GenerationArguments],
    ) -> None:
        """`template` replaces the model's own: its Jinja2 source, or the name of a built-in one such as "chatml".

        `template_args` are further variables for the template, with values that JSON can represent.

        `overflow` is the policy for a conversation that is longer than the context (`edgellm.options.ChatOptions`).

        `tools` are functions, or OpenAI definitions of functions, that each reply may call. `tool_choice` is "auto",
        "none", "required", the name of the tool to call, or OpenAI's object with that name. With `parallel_tool_calls`
        False each reply has one call at most.

        Raises EdgeLLMError without a usable template, OptionError for the other options.
        """
        tokenizer, name = generator.tokenizer, generator.session.name
        source = own_template(name, tokenizer.chat_template) if template is None else named_source(template)
        generator.options(**options)
        policy = ChatOptions.from_kwargs(overflow=overflow).overflow
        tool_source = source if template is not None else tokenizer.tool_template or source
        templates = ChatTemplates(generator, source, tool_source, template_args, policy)
        title = template_title(template, name)
        self._tools = ChatTools(tokenizer, title, tool_source, tools, tool_choice, parallel_tool_calls)
        self._name, self._options, self._prompts = name, options, templates.own
        self._replies = ChatReplies(generator, templates, self._tools, options)
        self._running: Generation | None = None
        self.messages: list[dict[str, Any]] = []
        if system is not None:
            check_text("system", system)
            self.messages.append({"role": "system", "content": system})

    def __repr__(self) -> str:
        return f"<edgellm.Chat with {self._name}, messages: {len(self.messages)}>"

    @property
    def thinking(self) -> bool:
        """Whether the template reads `enable_thinking`; if so, pass True or False for it in `template_args`."""
        return "enable_thinking" in self._prompts.template.names

    @property
    def effort(self) -> bool:
        """Whether the template reads `reasoning_effort`; if so, pass "low", "medium" or "high" in `template_args`."""
        return "reasoning_effort" in self._prompts.template.names

    @property
    def calls(self) -> bool:
        """Whether the template shows how the model calls tools; if not, `tools` are refused."""
        return call_format(self._tools.source) is not None

    def send(
        self, text: str, *, max_steps: int = 1, approve: Approve | None = None, **options: Unpack[ReplyArguments]
    ) -> Completion:
        """Send a user message and wait for the whole reply; options and errors are those of `stream`.

        With `max_steps` above 1, functions that the reply calls are run, their results sent, and so on, until a reply
        has no calls or there were `max_steps` replies: the last one is returned. `approve(call)` may refuse a call. The
        model is told of refusals and of what a function raises. A reply that calls a tool without a function, of which
        there is only a definition, is returned, and none of its calls is run: `send_results` goes on. From the second
        reply on the model need not call.
        """
        return self._steps(partial(self.stream, text), max_steps, approve, options)

    def send_results(
        self,
        results: Results,
        *,
        max_steps: int = 1,
        approve: Approve | None = None,
        **options: Unpack[ReplyArguments],
    ) -> Completion:
        """Send the results of calls and wait for the whole reply, as `send` does; see `stream_results`."""
        return self._steps(partial(self.stream_results, results), max_steps, approve, options)

    def _steps(
        self, first: Callable[..., Generation], max_steps: int, approve: Approve | None, options: ReplyArguments
    ) -> Completion:
        """The last of up to `max_steps` replies, of which `first` starts the first one."""
        options.setdefault("logprobs", self._options.get("logprobs", False))
        steps = validate("max_steps", integer(1), max_steps)
        validate("approve", function_or_none, approve)
        if (tools := options.get("tools")) is not None:
            options["tools"] = tools = tools_of(tools).values()  # which can be read again, as an iterator cannot
        completion = first(**options).completion()
        for _ in range(steps - 1):
            waits = completion.finish_reason == "tool_calls"
            if not waits or not self._tools.run(completion.tool_calls, tools, approve, self.messages.append):
                break
            options["tool_choice"] = self._tools.choice_behind_results(options.get("tool_choice"))
            completion = self.stream_results([], **options).completion()
        return completion

    def stream(
        self, text: str, *, progress: PrefillProgress | None = None, **options: Unpack[ReplyArguments]
    ) -> Generation:
        """Send a user message; returns the reply token by token, with the options and errors of `reply`.

        `messages` gets both at the end. Of a cancelled reply it gets the text so far; if there is no token yet, it gets
        neither message.
        """
        check_text("text", text)
        self._end_running()
        return self._send([{"role": "user", "content": text}], progress, options)

    def stream_results(
        self, results: Results, *, progress: PrefillProgress | None = None, **options: Unpack[ReplyArguments]
    ) -> Generation:
        """Send the results of calls that the caller ran; returns the reply token by token, with the options of `reply`.

        `results` are a mapping of the ids of calls to results, or results in the order of the calls: those of the last
        reply that have no result in `messages` yet. A result is text, or a value that becomes JSON. `messages` gets
        them and the reply as in `stream`. Unless `tool_choice` is given, the model need not call again.

        Raises EdgeLLMError, in one line, if no calls wait, or a call has no result or a result no call, and the errors
        of `reply`.
        """
        self._end_running()
        check_messages(self.messages)
        options.setdefault("tool_choice", self._tools.choice_behind_results(None))
        return self._send(result_messages(self.messages, results), progress, options)

    async def asend(
        self, text: str, *, max_steps: int = 1, approve: Approve | None = None, **options: Unpack[ReplyArguments]
    ) -> Completion:
        """As `send`, for `asyncio`. When the task that waits is cancelled, so is the reply; it ends first."""
        from edgellm.generate.async_generation import in_thread  # imports asyncio

        work = partial(self.send, text, max_steps=max_steps, approve=approve, **options)
        return await in_thread(work, self.cancel)

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

    def _send(
        self, sent: list[dict[str, Any]], progress: PrefillProgress | None, options: ReplyArguments
    ) -> Generation:
        """The reply to the conversation and the messages `sent`, which it gets with the reply."""
        messages = self.messages

        def keep(reply: dict[str, Any]) -> None:
            messages.extend([*sent, reply])

        return self._start([*messages, *sent], progress, keep, **options)

    def _start(
        self,
        messages: Sequence[Message],
        progress: PrefillProgress | None,
        on_end: Callable[[dict[str, Any]], None] = lambda message: None,
        **options: Any,
    ) -> Generation:
        self._running = self._replies.start(messages, progress, on_end, **options)
        return self._running

    def _end_running(self) -> None:
        if self._running:
            self._running.close()

    def count(
        self,
        messages: Sequence[Message],
        *,
        template_args: Mapping[str, Any] | None = None,
        tools: Iterable[Any] | None = None,
        tool_choice: ToolChoice | None = None,
    ) -> int:
        """The number of tokens in the prompt of these messages; the last may have any role.

        Options are those of `reply`. Raises OptionError, and EdgeLLMError.
        """
        check_messages(messages)
        return self._replies.count(messages, template_args, tools, tool_choice)

    def inspect(
        self,
        messages: Sequence[Message],
        *,
        template_args: Mapping[str, Any] | None = None,
        overflow: str | None = None,
        tools: Iterable[Any] | None = None,
        tool_choice: ToolChoice | None = None,
        **options: Unpack[GenerationArguments],
    ) -> Inspection:
        """The prompt of these messages in detail, with warnings of possible mistakes; the last may have any role.

        The options are those of `reply`. Raises OptionError, and EdgeLLMError for malformed messages; other problems
        are warnings.
        """
        check_messages(messages)
        return self._replies.inspect(messages, template_args, overflow, tools, tool_choice, options)

    def cancel(self) -> None:
        """Cancel the running reply, from any thread; without one, nothing happens.

        While the prompt is rendered, the call that asked for the reply raises EdgeLLMError.
        """
        self._replies.stop()
        if self._running:
            self._running.cancel()
