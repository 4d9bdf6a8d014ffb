"""Guides of replies that may call tools: arguments follow the schema of their tool."""

import json
from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np

from edgellm.errors import EdgeLLMError, GuideError
from edgellm.guides.compile import check
from edgellm.guides.guide import Guide, GuideFactory
from edgellm.guides.limited_channel import LimitedChannel
from edgellm.guides.opened import OpenedGuide
from edgellm.guides.spec import GuideSpec
from edgellm.guides.thinking import ReplyStart, begun_answer, gated, is_answer, is_thought
from edgellm.text import harmony
from edgellm.text.thought import Thought
from edgellm.text.tokenizer import Tokenizer
from edgellm.tools.call_format import AUTO
from edgellm.tools.schemas import guided_parameters
from edgellm.tools.tool import Tool
from edgellm.tools.use import ToolUse

Compile = Callable[[GuideSpec], GuideFactory]


def call_guide(
    use: ToolUse, compile: Compile, start: ReplyStart, limit: int | None, tokenizer: Tokenizer, vocab: int
) -> Guide | None:
    """The guide of a reply that begins at `start`, with at most `limit` tokens of thinking, None for no limit.

    Where calls begin with a token of their own, a reply that need not call is free until then: no mask is computed.
    Raises OptionError; GuideError names the tool and the place in its schema.
    """
    try:
        return _guide(use, compile, start, limit, tokenizer, vocab)
    except GuideError:
        for tool in use.tools.values():
            check_tool(tool)
        raise


def check_tool(tool: Tool) -> None:
    """Raises GuideError for a tool whose schema no guide follows."""
    try:
        check(GuideSpec("json_schema", json.dumps(guided_parameters(tool))))
    except GuideError as error:
        problem = str(error).removeprefix("option json_schema").lstrip(": ")
        raise GuideError(f"tool {tool.name}: parameters: {problem}") from None


def _guide(
    use: ToolUse, compile: Compile, start: ReplyStart, limit: int | None, tokenizer: Tokenizer, vocab: int
) -> Guide | None:
    if use.form.grammar_has_thoughts:
        return _with_thoughts(use, compile, start, limit, tokenizer)
    marks = frozenset(use.tokens.values())
    if use.choice == AUTO and (first := _first(calls := compile(_spec(use.opened_grammar())))) <= marks:
        free = OpenedGuide(calls(), first)
        return free if limit is None else gated(free, start, limit, tokenizer, vocab, marks, first, free=True)
    reply = compile(_spec(use.grammar()))
    if use.choice == AUTO and start.begun and is_answer(start, tokenizer):
        return _advanced(reply(), tokenizer.encode_parts([Thought.of(start.begun).answer or ""], first=False))
    return gated(reply(), start, limit, tokenizer, vocab, marks, marks & _first(reply))


def _with_thoughts(use: ToolUse, compile: Compile, start: ReplyStart, limit: int | None, tokenizer: Tokenizer) -> Guide:
    """The guide in harmony, whose grammar covers what the model thinks. Raises OptionError."""
    whole, answers = use.grammar(), use.grammar(thoughts=False)
    parts = (
        tokenizer.split(text, tokenizer.control_texts if is_mark else {})
        for text, is_mark in harmony.continuation(start.begun)
    )
    guide = compile(_spec(whole if start.begun or limit != 0 else answers))()
    if _advanced(guide, tokenizer.encode_parts(chain.from_iterable(parts))) is None:
        raise begun_answer()
    if limit is None:
        return guide
    return LimitedChannel(guide, compile(_spec(answers)), limit, tokenizer, is_thought(start, tokenizer))


def _advanced(guide: Guide, begun: Iterable[int]) -> Guide | None:
    """The guide of a reply behind its beginning; None if a reply cannot begin so."""
    try:
        for token in begun:
            guide.accept(token)
    except EdgeLLMError:
        return None
    return guide


def _spec(grammar: str) -> GuideSpec:
    return GuideSpec("calls", grammar)


def _first(guides: GuideFactory) -> frozenset[int]:
    """The tokens with which a reply may begin."""
    allowed = guides().allowed()
    assert allowed is not None
    return frozenset(np.flatnonzero(allowed).tolist())
