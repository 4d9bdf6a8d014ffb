"""Prompts of conversations: a chat template and a tokenizer together."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from edgellm.errors import EdgeLLMError, MissingTemplateError
from edgellm.text.call_rendering import (
    CALLS_ADVICE,
    CallStyle,
    Write,
    find_style,
    render_in_content,
    takes_several_calls,
)
from edgellm.text.conversation import Message, has_calls
from edgellm.text.rendered_prompt import RenderedPrompt
from edgellm.text.reply_format import ReplyReader
from edgellm.text.special_tokens import Span
from edgellm.text.template import ChatTemplate
from edgellm.text.tokenizer import Tokenizer

_CACHED_TEXTS = 2048
"""Texts between control tokens whose ids are cached: every turn encodes the whole conversation again."""


def own_template(model: str, source: str | None) -> str:
    """The chat template of a model's file. Raises MissingTemplateError if it has none."""
    if source is None:
        raise MissingTemplateError(f"{model} has no chat template", "it may not be a chat model; {template}")
    return source


def template_for(tokenizer: Tokenizer, source: str) -> ChatTemplate:
    """A chat template that is given the texts of BOS and EOS. Raises EdgeLLMError if it is not valid."""
    ids = (tokenizer.bos_id, tokenizer.eos_id)
    bos, eos = ("" if i is None else tokenizer.token_bytes(i, special=True).decode(errors="replace") for i in ids)
    return ChatTemplate(source, bos, eos)


class ChatPrompts:
    """Renders conversations and encodes them.

    Only the template's own text becomes control tokens. A control text with a character of a message or of a template
    argument in it is encoded as plain text. `controls` are the ids of these tokens by text.
    """

    def __init__(
        self, tokenizer: Tokenizer, template: ChatTemplate, marks: Collection[str] = (), write: Write | None = None
    ) -> None:
        """`marks` are texts of user-defined tokens that are control tokens, too: those around calls and their results.

        `write` writes calls as the model does, for a template that does not show them.
        """
        self.tokenizer, self.template, self._write = tokenizer, template, write
        self.controls = {**tokenizer.control_texts, **tokenizer.special_ids(marks)}
        self._encoded = lru_cache(_CACHED_TEXTS)(lambda text: tuple(tokenizer.encode_parts([text])))
        self._styles = list[CallStyle | None]()  # that of calls, once it is known
        self._several = list[bool]()  # whether several calls are taken, once that is known

    def ids(self, messages: Sequence[Message], begun: str = "", /, **args: Any) -> list[int]:
        """The ids of a conversation in the template, with one BOS if the model asks for it.

        `begun` is the beginning of the reply; like messages, it never becomes a control token. Raises EdgeLLMError if
        the template fails.
        """
        rendered = self.rendered(messages, **args)
        form = self.template.reply_format
        for text, is_mark in form.continuation(begun) if form else [(begun, False)]:
            rendered = rendered.followed_by(text, is_mark)
        return self.encode(rendered.text, self.spans(rendered))

    def rendered(self, messages: Sequence[Message], /, **args: Any) -> RenderedPrompt:
        """The rendered conversation, with calls in the style of the template. Raises EdgeLLMError if it fails."""
        render = partial(self.template.render, **args)
        if not has_calls(messages):
            return render(messages)
        if style := self._style(args):
            return render(style.applied(messages))
        if self._write is None:
            raise EdgeLLMError(f"the chat template shows no calls of tools: {CALLS_ADVICE}")
        return render_in_content(render, messages, self._write)

    def takes_several_calls(self) -> bool:
        """Whether the template takes several calls in one message; some raise an error. Raises EdgeLLMError."""
        if not self._several:
            style = self._style({})
            trial = partial(self.template.render, add_generation_prompt=False)
            self._several.append(style is None or takes_several_calls(trial, style))
        return self._several[0]

    def _style(self, args: Mapping[str, Any]) -> CallStyle | None:
        if not self._styles:
            self._styles.append(find_style(partial(self.template.render, **{**args, "add_generation_prompt": False})))
        return self._styles[0]

    def reader(self, begun: str) -> ReplyReader | None:
        """A reader of a reply that begins with `begun`, if template and vocabulary have a format of replies."""
        form = self.template.reply_format
        return form.reader_in(self.tokenizer, begun) if form else None

    def spans(self, rendered: RenderedPrompt) -> list[Span]:
        """The text cut at its special tokens, with their ids. Two texts are never adjacent."""
        return self.tokenizer.spans(rendered.text, self.controls, rendered.masked(self.controls))

    def encode(self, text: str, spans: Sequence[Span]) -> list[int]:
        """The ids of a text that was cut by `spans`, with one BOS if the model asks for it."""
        ids: list[int] = []
        for start, end, token in spans:
            ids += self._encoded(text[start:end]) if token is None else [token]
        tokenizer = self.tokenizer
        if tokenizer.add_bos and tokenizer.bos_id is not None:
            while ids[:1] == [tokenizer.bos_id]:
                del ids[0]
            ids.insert(0, tokenizer.bos_id)
        return ids
