"""A conversation: messages in the model's own template, and the state of what it has read so far."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from edgellm.arguments import GenerationArguments, ReplyArguments
from edgellm.errors import EdgeLLMError, OptionError
from edgellm.fmt import printable
from edgellm.generate.decoding import Prompt
from edgellm.generate.generation import Completion, Generation
from edgellm.generate.generator import Writer
from edgellm.generate.overflow import Overflow, pinned
from edgellm.generate.prefix_cache import Branches
from edgellm.generate.session import PrefillProgress
from edgellm.options import ChatOptions, check_text
from edgellm.text.inspection import Inspection, inspect
from edgellm.text.prompts import ChatPrompts, own_template, template_for
from edgellm.text.template import Message, check_messages, named_source


class Chat:
    """Made by `Model.chat`. `messages` are dicts of `role` and `content`, the system prompt first.

    Replies of a chat come one after the other; what it has read stays in memory, so a turn costs only what is
    new in it.
    """

    def __init__(
        self,
        writer: Writer,
        system: str | None = None,
        *,
        template: str | None = None,
        template_args: Mapping[str, Any] | None = None,
        overflow: str | None = None,
        **options: Unpack[GenerationArguments],
    ) -> None:
        """`template` stands in for the model's own: its Jinja2 source, or the name of a built-in one such as "chatml".

        `template_args` are names it may use, with what JSON can hold.

        `overflow` says what becomes of a conversation that outgrows the context: see `edgellm.options.ChatOptions`.

        Raises EdgeLLMError without a usable template, OptionError for the other options.
        """
        tokenizer = writer.tokenizer
        own = tokenizer.chat_template
        source = own_template(writer.session.name, own) if template is None else named_source(template)
        writer.options(**options)
        self._overflow = ChatOptions.from_kwargs(overflow=overflow).overflow
        self._writer, self._args, self._options = writer, dict(template_args or {}), options
        self._prompts = ChatPrompts(tokenizer, template_for(tokenizer, source))
        self._branches = Branches(writer.session)
        self._running: Generation | None = None
        self.messages: list[dict[str, str]] = []
        if system is not None:
            check_text("system", system)
            self.messages.append({"role": "system", "content": system})

    def __repr__(self) -> str:
        return f"<edgellm.Chat with {self._writer.session.name}, messages: {len(self.messages)}>"

    @property
    def thinking(self) -> bool:
        """Whether the template knows `enable_thinking`: True or False for it are then a template argument."""
        return "enable_thinking" in self._prompts.template.names

    def send(self, text: str, **options: Unpack[ReplyArguments]) -> Completion:
        """Say something and wait for the whole reply; options and errors are those of `stream`."""
        options.setdefault("logprobs", self._options.get("logprobs", False))
        return self.stream(text, **options).completion()

    def stream(
        self, text: str, *, progress: PrefillProgress | None = None, **options: Unpack[ReplyArguments]
    ) -> Generation:
        """Say something; the reply token by token, with the options and errors of `reply`.

        Of a reply cut short the part that has come is kept; if nothing has, what was said is forgotten too.
        """
        check_text("text", text)
        self._end_running()
        asked, messages = {"role": "user", "content": text}, self.messages

        def keep(reply: str) -> None:
            messages.extend([asked, {"role": "assistant", "content": reply}])

        return self._start([*messages, asked], progress, keep, **options)

    def reply(
        self,
        messages: Sequence[Message],
        *,
        begun: str = "",
        progress: PrefillProgress | None = None,
        **options: Unpack[ReplyArguments],
    ) -> Generation:
        """The reply to any conversation, token by token; `self.messages` are neither read nor changed.

        The last message is the user's, or a tool's. `begun` is what the reply begins with: it goes on from there, and
        its text is what follows. Options are those of `Model.stream`, and `template_args` and
        `overflow`, which go over those of the chat. A reply that is still being made ends first. Raises as
        `Model.stream`, and EdgeLLMError for messages that nobody can reply to.
        """
        check_messages(messages)
        last = messages[-1]["role"] if messages else "nobody"
        if last not in ("user", "tool"):
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
        writer = self._writer
        self._prompts.template.resume()
        meter, chosen = writer.meter(), writer.options(**{**self._options, **options})
        prompt = self._fitted(messages, chosen.max_tokens, template_args, overflow, begun)
        self._running = writer.start(prompt, chosen, meter, self._branches, progress, on_end)
        return self._running

    def _fitted(
        self,
        messages: Sequence[Message],
        max_tokens: int | None,
        template_args: Mapping[str, Any] | None,
        overflow: str | None,
        begun: str = "",
    ) -> Prompt:
        """The prompt, less what the policy leaves out. Raises ContextOverflowError if it still does not fit."""
        policy = ChatOptions.from_kwargs({"overflow": self._overflow}, overflow=overflow).overflow
        args = self._with(template_args)
        tokens = partial(self._tokens, begun, args)
        return Overflow(messages, tokens, self._writer.session, max_tokens).prompt(policy)

    def _tokens(self, begun: str, args: Mapping[str, Any], messages: Sequence[Message]) -> list[int]:
        return self._prompts.ids(messages, begun, **args)

    def _with(self, template_args: Mapping[str, Any] | None) -> dict[str, Any]:
        return {**self._args, **(template_args or {})}

    def _end_running(self) -> None:
        if self._running:
            self._running.close()

    def count(self, messages: Sequence[Message], *, template_args: Mapping[str, Any] | None = None) -> int:
        """How many tokens the prompt of these messages has, whoever speaks last. Raises EdgeLLMError as `reply`."""
        check_messages(messages)
        self._prompts.template.resume()
        return len(self._prompts.ids(messages, **self._with(template_args)))

    def inspect(
        self,
        messages: Sequence[Message],
        *,
        template_args: Mapping[str, Any] | None = None,
        overflow: str | None = None,
        **options: Unpack[GenerationArguments],
    ) -> Inspection:
        """What the model would get of these messages, whoever speaks last, and what may be wrong with it.

        The options are those of `reply`. Raises OptionError, and EdgeLLMError for what are no messages; all else is
        told in its warnings.
        """
        check_messages(messages)
        self._prompts.template.resume()
        args, warnings, left = self._with(template_args), list[str](), list(messages)
        try:
            chosen = self._writer.options(**{**self._options, **options})
            prompt = self._fitted(messages, chosen.max_tokens, template_args, overflow)
            first = pinned(messages)
            del left[first : first + prompt.dropped.messages]
            if prompt.dropped.messages:
                warnings.append(f"{prompt.dropped.messages} messages ({prompt.dropped.tokens:,} tokens) are left out")
        except OptionError:
            raise
        except EdgeLLMError as error:
            warnings.append(str(error))
        found = inspect(self._writer.tokenizer, self._prompts, left, **args)
        return replace(found, warnings=list(dict.fromkeys(warnings + found.warnings)))

    def cancel(self) -> None:
        """Stop the reply that is being made, from any thread; nothing happens if there is none.

        While its prompt is made, the call that asked for it raises EdgeLLMError.
        """
        self._prompts.template.stop()
        if self._running:
            self._running.cancel()
