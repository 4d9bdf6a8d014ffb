"""A conversation: messages in the model's own template, and the state of what it has read so far."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from edgellm.branches import Branches
from edgellm.errors import EdgeLLMError
from edgellm.generation import Completion, Generation
from edgellm.gguf.printable import printable
from edgellm.options import ChatOptions, check_text
from edgellm.overflow import Overflow
from edgellm.session import PrefillProgress
from edgellm.text.prompts import ChatPrompts
from edgellm.text.template import ChatTemplate, Message
from edgellm.text.tokenizer import Tokenizer
from edgellm.writer import Writer

_ADVICE = "shorten it, raise ctx if the model allows more, or set overflow to drop or window"
_ADVICE_FOR_ONE_TURN = "no older turns are left to leave out; shorten the last message or the system prompt"


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
        **options: Any,
    ) -> None:
        """`template` is Jinja2 source in place of the model's own; `template_args` are names it may use.

        `overflow` says what becomes of a conversation that outgrows the context: see `edgellm.options.ChatOptions`.

        Raises EdgeLLMError without a usable template, OptionError for the other options.
        """
        tokenizer = writer.tokenizer
        source = template if template is not None else tokenizer.chat_template
        if source is None:
            raise EdgeLLMError(
                f"{writer.session.name} has no chat template: it may not be a chat model; "
                "give one as --template NAME|FILE"
            )
        writer.options(**options)
        self._overflow = ChatOptions.from_kwargs(overflow=overflow).overflow
        self._writer, self._args, self._options = writer, dict(template_args or {}), options
        bos, eos = (_text(tokenizer, i) for i in (tokenizer.bos_id, tokenizer.eos_id))
        self._prompts = ChatPrompts(tokenizer, ChatTemplate(source, bos, eos))
        self._branches = Branches(writer.session)
        self._running: Generation | None = None
        self.messages: list[dict[str, str]] = []
        if system is not None:
            check_text("system", system)
            self.messages.append({"role": "system", "content": system})

    @property
    def thinking(self) -> bool:
        """Whether the template knows `enable_thinking`: True or False for it are then a template argument."""
        return "enable_thinking" in self._prompts.template.names

    def send(self, text: str, **options: Any) -> Completion:
        """Say something and wait for the whole reply; options and errors are those of `stream`."""
        return self.stream(text, **options).completion()

    def stream(self, text: str, *, progress: PrefillProgress | None = None, **options: Any) -> Generation:
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
        self, messages: Sequence[Message], *, progress: PrefillProgress | None = None, **options: Any
    ) -> Generation:
        """The reply to any conversation, token by token; `self.messages` are neither read nor changed.

        The last message is the user's, or a tool's. Options are those of `Model.stream`, and `template_args` and
        `overflow`, which go over those of the chat. A reply that is still being made ends first. Raises as
        `Model.stream`, and EdgeLLMError for messages that nobody can reply to.
        """
        _check(messages)
        last = messages[-1]["role"] if messages else "nobody"
        if last not in ("user", "tool"):
            raise EdgeLLMError(f"the last message is from {printable(last)}: end with one from user or tool")
        self._end_running()
        return self._start(messages, progress, **options)

    def _start(
        self,
        messages: Sequence[Message],
        progress: PrefillProgress | None,
        on_end: Callable[[str], None] = lambda text: None,
        template_args: Mapping[str, Any] | None = None,
        overflow: str | None = None,
        **options: Any,
    ) -> Generation:
        writer, session = self._writer, self._writer.session
        meter, chosen = writer.meter(), writer.options(**{**self._options, **options})
        policy = ChatOptions.from_kwargs(overflow=overflow or self._overflow).overflow
        prompt = Overflow(messages, self._tokens(template_args), session.engine.ctx, chosen.max_tokens).prompt(policy)
        session.check_fits(prompt.ids, _ADVICE if policy == "stop" else _ADVICE_FOR_ONE_TURN)
        self._running = writer.start(prompt, chosen, meter, self._branches, progress, on_end)
        return self._running

    def _tokens(self, template_args: Mapping[str, Any] | None) -> Callable[[Sequence[Message]], list[int]]:
        return partial(self._prompts.ids, **{**self._args, **(template_args or {})})

    def _end_running(self) -> None:
        if self._running:
            self._running.close()

    def count(self, messages: Sequence[Message], *, template_args: Mapping[str, Any] | None = None) -> int:
        """How many tokens the prompt of these messages has, whoever speaks last. Raises EdgeLLMError as `reply`."""
        _check(messages)
        return len(self._tokens(template_args)(messages))

    def cancel(self) -> None:
        """Stop the reply that is being made, from any thread; nothing happens if there is none."""
        if self._running:
            self._running.cancel()


def _check(messages: Sequence[Message]) -> None:
    """Raises EdgeLLMError unless these are messages of text."""
    for number, message in enumerate(messages, 1):
        texts = [message.get(key) for key in ("role", "content")] if isinstance(message, Mapping) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            raise EdgeLLMError(f"message {number} must be a mapping with a text as role and one as content")


def _text(tokenizer: Tokenizer, token: int | None) -> str:
    """The text of a special token, empty if the model has none."""
    return "" if token is None else tokenizer.token_bytes(token, special=True).decode(errors="replace")
