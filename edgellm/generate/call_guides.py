"""Guides of replies that may call tools: arguments follow the schema of their tool."""

import json
from collections.abc import Callable

import numpy as np

from edgellm.errors import GuideError
from edgellm.guides.compile import check
from edgellm.guides.guide import Guide, GuideFactory
from edgellm.guides.opened import OpenedGuide
from edgellm.guides.spec import GuideSpec
from edgellm.guides.thinking import ReplyStart, gated, is_answer
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
        return compile(_spec(use.grammar()))()
    marks = frozenset(use.tokens.values())
    if use.choice == AUTO and (openers := _openers(opened := compile(_spec(use.opened_grammar())), marks)):
        free = OpenedGuide(opened(), openers)
        return (
            free if limit is None or is_answer(start, tokenizer) else gated(free, start, limit, tokenizer, vocab, marks)
        )
    if use.choice == AUTO and start.begun and is_answer(start, tokenizer):
        return None
    return gated(compile(_spec(use.grammar()))(), start, limit, tokenizer, vocab, marks)


def _spec(grammar: str) -> GuideSpec:
    return GuideSpec("calls", grammar)


def _openers(calls: GuideFactory, marks: frozenset[int]) -> frozenset[int]:
    """The tokens with which calls begin; empty if some calls begin with text."""
    allowed = calls().allowed()
    first = frozenset(np.flatnonzero(allowed).tolist()) if allowed is not None else frozenset[int]()
    return first if first <= marks else frozenset()
