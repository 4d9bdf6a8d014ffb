"""Conversations to the ids of a prompt: a tokenizer with a chat template."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.text.guard import Guard, unused_characters
from edgellm.text.template import ChatTemplate, Message
from edgellm.text.tokenizer import Tokenizer, without_surrogates

_REMEMBERED = 2048
"""Texts between control tokens whose ids are kept: a conversation comes again with every turn."""

_LONGEST_CONTROL = 256


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


@dataclass(frozen=True)
class Rendered:
    """A conversation in its template, with a private character in what only looks like a control token."""

    guarded: str
    mark: str

    @property
    def text(self) -> str:
        """What the model is to read."""
        return without_surrogates(self.guarded.replace(self.mark, ""))


class ChatPrompts:
    """Makes the prompts of conversations.

    Only the template's own text makes control tokens: in the messages and `args`, what looks like one is
    rendered with a private character inside, which keeps it apart from the real ones. `controls` are those that are
    found, by text.
    """

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self.tokenizer, self.template = tokenizer, template
        # No character can be put into a text of one, and none is so long that it would take long to look for its parts.
        self.controls = {text: i for text, i in tokenizer.control_texts.items() if 1 < len(text) <= _LONGEST_CONTROL}
        self._encoded = lru_cache(_REMEMBERED)(lambda text: tuple(tokenizer.encode_parts([text])))

    def ids(self, messages: Sequence[Message], /, **args: Any) -> list[int]:
        """The ids of a rendered conversation, with one BOS if the model wants one. Raises as `render`."""
        return self.encode(self.parts(self.render(messages, **args)))

    def render(self, messages: Sequence[Message], /, **args: Any) -> Rendered:
        """A conversation in the template. Raises EdgeLLMError when the template fails."""
        marks = unused_characters(self.template.source, messages, args, *self.controls)
        for mark in marks:
            guard = Guard(mark, self.controls)
            return Rendered(self.template.render(guard.applied(messages), **guard.applied(args)), mark)
        raise EdgeLLMError("the messages use every private character of Unicode; take some out")

    def parts(self, rendered: Rendered) -> list[str | int]:
        """The text cut at its special tokens, which are ids; no two texts come one after the other."""
        parts: list[str | int] = []
        for part in self.tokenizer.split(rendered.guarded, self.controls):
            parts += [part] if isinstance(part, int) else self.tokenizer.split(part.replace(rendered.mark, ""), {})
        return parts

    def encode(self, parts: Sequence[str | int]) -> list[int]:
        """The ids of the parts, with one BOS if the model wants one."""
        ids: list[int] = []
        for part in parts:
            ids += [part] if isinstance(part, int) else self._encoded(part)
        tokenizer = self.tokenizer
        if tokenizer.add_bos and tokenizer.bos_id is not None:
            while ids[:1] == [tokenizer.bos_id]:
                del ids[0]
            ids.insert(0, tokenizer.bos_id)
        return ids
