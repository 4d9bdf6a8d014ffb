"""A conversation: messages in the model's own template, and the state of what it has read so far."""

from collections.abc import Mapping
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.generation import Completion, Generation
from edgellm.options import check_text
from edgellm.session import PrefillProgress
from edgellm.text.template import ChatTemplate, chat_tokens
from edgellm.text.tokenizer import Tokenizer
from edgellm.writer import Writer


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
        **options: Any,
    ) -> None:
        """`template` is Jinja2 source in place of the model's own; `template_args` are names it may use.

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
        self._writer, self._args, self._options = writer, dict(template_args or {}), options
        bos, eos = (_text(tokenizer, i) for i in (tokenizer.bos_id, tokenizer.eos_id))
        self._template = ChatTemplate(source, bos, eos)
        self._slot = writer.slot()
        self._running: Generation | None = None
        self.messages: list[dict[str, str]] = []
        if system is not None:
            check_text("system", system)
            self.messages.append({"role": "system", "content": system})

    def send(self, text: str, **options: Any) -> Completion:
        """Say something and wait for the whole reply; options and errors are those of `Model.stream`."""
        return self.stream(text, **options).completion()

    def stream(self, text: str, *, progress: PrefillProgress | None = None, **options: Any) -> Generation:
        """Say something; the reply token by token.

        A reply that is still being made ends first. Of one cut short the part that has come is kept; if nothing
        has, what was said is forgotten too.
        """
        check_text("text", text)
        if self._running:
            self._running.close()
        writer, messages, asked = self._writer, self.messages, {"role": "user", "content": text}
        meter, chosen = writer.meter(), writer.options(**{**self._options, **options})
        ids = chat_tokens(writer.tokenizer, self._template, [*messages, asked], **self._args)

        def keep(reply: str) -> None:
            messages.extend([asked, {"role": "assistant", "content": reply}])

        self._running = writer.start(ids, chosen, meter, self._slot, progress, keep)
        return self._running

    def cancel(self) -> None:
        """Stop the reply that is being made, from any thread; nothing happens if there is none."""
        if self._running:
            self._running.cancel()


def _text(tokenizer: Tokenizer, token: int | None) -> str:
    """The text of a special token, empty if the model has none."""
    return "" if token is None else tokenizer.token_bytes(token, special=True).decode(errors="replace")
