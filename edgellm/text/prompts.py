"""Conversations to the ids of a prompt: a tokenizer with a chat template."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from edgellm.text.guard import Guard, unused_character
from edgellm.text.template import ChatTemplate, Message
from edgellm.text.tokenizer import Tokenizer

_REMEMBERED = 2048
"""Texts between control tokens whose ids are kept: a conversation comes again with every turn."""


class ChatPrompts:
    """Makes the prompts of conversations.

    Only the template's own text makes control tokens: in the messages and `args`, what looks like one is
    rendered with a private character inside, which keeps it apart from the real ones.
    """

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self.tokenizer, self.template = tokenizer, template
        # No character can be put into a text of one, so those are never taken for control tokens.
        self._controls = {text: i for text, i in tokenizer.control_texts.items() if len(text) > 1}
        self._encoded = lru_cache(_REMEMBERED)(lambda text: tuple(tokenizer.encode_parts([text])))

    def ids(self, messages: Sequence[Message], /, **args: Any) -> list[int]:
        """The ids of a rendered conversation, with one BOS if the model wants one. Raises as `ChatTemplate.render`."""
        ids: list[int] = []
        for part in self.parts(messages, **args):
            ids += [part] if isinstance(part, int) else self._encoded(part)
        tokenizer = self.tokenizer
        if tokenizer.add_bos and tokenizer.bos_id is not None:
            while ids[:1] == [tokenizer.bos_id]:
                del ids[0]
            ids.insert(0, tokenizer.bos_id)
        return ids

    def parts(self, messages: Sequence[Message], /, **args: Any) -> list[str | int]:
        """A rendered conversation cut at its special tokens, which are ids; no two texts come one after the other."""
        mark = unused_character(self.template.source, messages, args, *self._controls)
        guard = Guard(mark, self._controls)
        rendered = self.template.render(guard.applied(messages), **guard.applied(args))
        parts: list[str | int] = []
        for part in self.tokenizer.split(rendered, self._controls):
            parts += [part] if isinstance(part, int) else self.tokenizer.split(part.replace(mark, ""), {})
        return parts
