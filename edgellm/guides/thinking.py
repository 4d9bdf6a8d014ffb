"""How a model thinks before it answers, by its chat template and by where the prompt ends."""

from dataclasses import replace
from typing import NamedTuple

from edgellm.errors import OptionError
from edgellm.guides.closing import Closing, ClosingText, ClosingToken
from edgellm.guides.free_text import FreeText
from edgellm.guides.guide import Guide
from edgellm.guides.thinking_gate import Ids, Stage, ThinkingGate, ThinkingMarks
from edgellm.text import harmony
from edgellm.text.reply_format import HARMONY
from edgellm.text.template import ChatTemplate
from edgellm.text.thinking_tags import ThinkingTags
from edgellm.text.thought import Thought
from edgellm.text.tokenizer import Tokenizer

_TAIL = 64
"""Tokens at the end of a prompt that show whether it ends inside a thought."""


class ReplyStart(NamedTuple):
    """Where a reply of a chat begins: the prompt, and the beginning of the reply that it ends with, empty for none.

    The model thinks between `tags`, or in the channels of harmony. Without both it does not think.
    """

    prompt: list[int]
    begun: str
    tags: ThinkingTags | None
    harmony: bool

    @classmethod
    def of(cls, prompt: list[int], begun: str, template: ChatTemplate) -> "ReplyStart":
        """Where a reply begins whose prompt is in a chat template."""
        return cls(prompt, begun, template.thinking_tags, template.reply_format is HARMONY)


def gated(
    answer: Guide | None,
    start: ReplyStart | None,
    limit: int | None,
    tokenizer: Tokenizer,
    vocab: int,
    marks: frozenset[int] = frozenset(),
    openers: frozenset[int] = frozenset(),
    free: bool = False,
) -> Guide | None:
    """A guide for a reply with thinking of at most `limit` tokens, and an answer that follows `answer`, if it is given.

    `start` is None for plain text. `marks` are tokens that are no text; those of them in `openers` begin the answer
    within a thought, others no thought has. `free` as in `ThinkingGate`. Raises OptionError if the answer has begun
    already.
    """
    if start is None or (answer is None and limit is None):
        return answer
    stage = _stage_of(start, tokenizer)
    if stage != Stage.INSIDE and start.begun and answer is not None and not free:
        raise begun_answer()
    if not (start.tags or start.harmony):
        return answer
    known = _of_tags(start.tags, tokenizer) if start.tags else _of_harmony(tokenizer)
    known = replace(known, banned=known.banned | (marks - openers), openers=openers)
    return ThinkingGate(answer or FreeText(), known, stage, limit, vocab, free or answer is None)


def begun_answer() -> OptionError:
    """The error about the beginning of an answer that a form excludes."""
    return OptionError("begun is the beginning of an answer, which cannot be held to a form: leave one of them out")


def is_thought(start: ReplyStart, tokenizer: Tokenizer) -> bool:
    """Whether a reply begins inside of a thought."""
    return _stage_of(start, tokenizer) == Stage.INSIDE


def is_answer(start: ReplyStart, tokenizer: Tokenizer) -> bool:
    """Whether a reply begins inside of its answer, or just before it with no thought allowed."""
    return _stage_of(start, tokenizer) == Stage.ANSWER


def _stage_of(start: ReplyStart, tokenizer: Tokenizer) -> Stage:
    return _stage(start, tokenizer.decode(start.prompt[-_TAIL:], special=True))


def _stage(start: ReplyStart, end: str) -> Stage:
    """Where a reply begins; `end` is the text at the end of the prompt."""
    if start.begun:
        thought, answer = Thought.of(start.begun)
        return Stage.INSIDE if thought is not None and answer is None else Stage.ANSWER
    if start.tags and end.rstrip().endswith(start.tags.closing):
        return Stage.ANSWER
    return Stage.INSIDE if start.tags and end.rstrip().endswith(start.tags.opening) else Stage.BEFORE


def _of_tags(tags: ThinkingTags, tokenizer: Tokenizer) -> ThinkingMarks:
    opening, closing = _tokens(tokenizer, tags.opening), _tokens(tokenizer, tags.closing)
    pieces = [] if len(closing) == 1 else [tokenizer.token_bytes(i) for i in range(tokenizer.n_vocab)]

    def new() -> Closing:
        return ClosingToken(closing[0]) if len(closing) == 1 else ClosingText(tags.closing.encode(), pieces)

    return ThinkingMarks(
        opening=opening,
        answer=(),
        end=_text(tokenizer, tags.lead) + closing + _text(tokenizer, tags.follow),
        behind=_text(tokenizer, tags.follow),
        again=False,
        banned=tokenizer.eog_ids | (set(opening) & set(tokenizer.control_texts.values())),
        closing=new,
    )


def _of_harmony(tokenizer: Tokenizer) -> ThinkingMarks:
    ids = tokenizer.control_texts
    channel, message, end = ids[harmony.CHANNEL], ids[harmony.MESSAGE], ids[harmony.END]
    start = (ids[harmony.START], *_text(tokenizer, "assistant"))
    answer = (channel, *_text(tokenizer, "final"), message)
    return ThinkingMarks(
        opening=(channel, *_text(tokenizer, "analysis"), message),
        answer=answer,
        end=(end, *start, *answer),
        behind=start,
        again=True,
        banned=frozenset(ids[mark] for mark in harmony.MARKS if mark != harmony.END) | tokenizer.eog_ids,
        closing=lambda: ClosingToken(end),
    )


def _tokens(tokenizer: Tokenizer, mark: str) -> Ids:
    """The token of a mark, or else those that spell it."""
    texts = tokenizer.vocabulary.texts
    return (texts.index(mark.encode()),) if mark.encode() in texts else _text(tokenizer, mark)


def _text(tokenizer: Tokenizer, text: str) -> Ids:
    return tuple(tokenizer.encode_parts([text], first=False)) if text else ()
