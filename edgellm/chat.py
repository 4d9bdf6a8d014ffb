"""`edgellm.Chat`: a conversation in the model's own chat template, with a prefix cache."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from edgellm.arguments import GenerationArguments, ReplyArguments
from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.generate.generation import Generation
from edgellm.generate.generator import Generator
from edgellm.generate.prefix_cache import PrefixCache
from edgellm.generate.prompt_builder import PromptBuilder
from edgellm.generate.results import Completion
from edgellm.generate.timing import PrefillProgress
from edgellm.options import ChatOptions, check_text
from edgellm.text.conversation import Message, check_messages
from edgellm.text.inspection import Inspection
from edgellm.text.prompts import ChatPrompts, own_template, template_for
from edgellm.text.template import named_source


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
        **options: Unpack[GenerationArguments],
    ) -> None:
        """`template` replaces the model's own: its Jinja2 source, or the name of a built-in one such as "chatml".

        `template_args` are further variables for the template, with values that JSON can represent.

        `overflow` is the policy for a conversation that is longer than the context (`edgellm.options.ChatOptions`).

        Raises EdgeLLMError without a usable template, OptionError for the other options.
        """
        tokenizer = generator.tokenizer
        own = tokenizer.chat_template
        source = own_template(generator.session.name, own) if template is None else named_source(template)
        generator.options(**options)
        policy = ChatOptions.from_kwargs(overflow=overflow).overflow
        prompts = ChatPrompts(tokenizer, template_for(tokenizer, source))
        self._generator, self._options = generator, options
        self._prompts = PromptBuilder(generator.session, prompts, template_args, policy)
        self._prefix_cache = PrefixCache(generator.session)
        self._running: Generation | None = None
        self.messages: list[dict[str, str]] = []
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

    def send(self, text: str, **options: Unpack[ReplyArguments]) -> Completion:
        """Send a user message and wait for the whole reply; options and errors are those of `stream`."""
        options.setdefault("logprobs", self._options.get("logprobs", False))
        return self.stream(text, **options).completion()

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

        def keep(reply: str) -> None:
            messages.extend([user_message, {"role": "assistant", "content": reply}])

        return self._start([*messages, user_message], progress, keep, **options)

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
        on_end: Callable[[str], None] = lambda text: None,
        template_args: Mapping[str, Any] | None = None,
        overflow: str | None = None,
        begun: str = "",
        **options: Unpack[GenerationArguments],
    ) -> Generation:
        check_text("begun", begun)
        generator = self._generator
        self._prompts.template.resume()
        timer, chosen = generator.start_timer(), generator.options(**{**self._options, **options})
        prompt = self._prompts.fit(messages, chosen.max_tokens, template_args, overflow, begun)
        reader = None if chosen.special else self._prompts.reader(begun)
        start = self._prompts.start(prompt, begun)
        self._running = generator.start(prompt, chosen, timer, self._prefix_cache, progress, on_end, reader, start)
        return self._running

    def _end_running(self) -> None:
        if self._running:
            self._running.close()

    def count(self, messages: Sequence[Message], *, template_args: Mapping[str, Any] | None = None) -> int:
        """The number of tokens in the prompt of these messages; the last may have any role. Raises EdgeLLMError."""
        check_messages(messages)
        self._prompts.template.resume()
        return len(self._prompts.ids(messages, template_args))

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
        self._prompts.template.resume()
        chosen = self._generator.options(**{**self._options, **options})
        return self._prompts.inspect(messages, chosen.max_tokens, template_args, overflow)

    def cancel(self) -> None:
        """Cancel the running reply, from any thread; without one, nothing happens.

        While the prompt is rendered, the call that asked for the reply raises EdgeLLMError.
        """
        self._prompts.template.stop()
        if self._running:
            self._running.cancel()
