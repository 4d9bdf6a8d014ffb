"""Conversations to the ids of a prompt: a tokenizer with a chat template."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.text.rendered import Rendered
from edgellm.text.template import ChatTemplate, Message
from edgellm.text.tokenizer import Span, Tokenizer

_REMEMBERED = 2048
"""Texts between control tokens whose ids are kept: a conversation comes again with every turn."""


def own_template(model: str, source: str | None) -> str:
    """The chat template of a model's file. Raises EdgeLLMError if it has none."""
    if source is None:
        raise EdgeLLMError(
            f"{model} has no chat template: it may not be a chat model; "
            "`edgellm generate --template NAME|FILE` takes one, as `template=` does in Python"
        )
    return source


def template_for(tokenizer: Tokenizer, source: str) -> ChatTemplate:
    """A chat template that knows BOS and EOS as the tokenizer writes them. Raises EdgeLLMError if it is not valid."""
    ids = (tokenizer.bos_id, tokenizer.eos_id)
    bos, eos = ("" if i is None else tokenizer.token_bytes(i, special=True).decode(errors="replace") for i in ids)
    return ChatTemplate(source, bos, eos)


class ChatPrompts:
    """Makes the prompts of conversations.

    Only the template's own text makes control tokens: one that has a character of the messages or `args` in it is text.
    """

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self.tokenizer, self.template = tokenizer, template
        self._encoded = lru_cache(_REMEMBERED)(lambda text: tuple(tokenizer.encode_parts([text])))

    def ids(self, messages: Sequence[Message], begun: str = "", /, **args: Any) -> list[int]:
        """The ids of a conversation in the template, with one BOS if the model wants one.

        `begun` is what the reply begins with; like messages it makes no control token. Raises EdgeLLMError when the
        template fails.
        """
        rendered = self.template.render(messages, **args).followed_by(begun)
        return self.encode(rendered.text, self.spans(rendered))

    def spans(self, rendered: Rendered) -> list[Span]:
        """The text cut at its special tokens, with their ids; no two texts come one after the other."""
        controls = self.tokenizer.control_texts
        return self.tokenizer.spans(rendered.text, controls, rendered.own(controls))

    def encode(self, text: str, spans: Sequence[Span]) -> list[int]:
        """The ids of a text that was cut, with one BOS if the model wants one."""
        ids: list[int] = []
        for start, end, token in spans:
            ids += self._encoded(text[start:end]) if token is None else [token]
        tokenizer = self.tokenizer
        if tokenizer.add_bos and tokenizer.bos_id is not None:
            while ids[:1] == [tokenizer.bos_id]:
                del ids[0]
            ids.insert(0, tokenizer.bos_id)
        return ids
