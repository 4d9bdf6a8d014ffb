"""Calls as Gemma 4 writes them. (https://ai.google.dev/gemma/docs/core/prompt-formatting-gemma4)

    <|tool_call>call:weather{city:<|"|>Rome<|"|>,days:3}<tool_call|>

Keys have no quotes, texts stand between two marks without escapes, arguments come in the order of the alphabet.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats.gemma4_rules import QUOTE, argument_object
from edgellm.tools.formats.json_calls import to_json
from edgellm.tools.formats.single_calls import single_frames
from edgellm.tools.grammar import Grammar, literal
from edgellm.tools.maker import CallMaker
from edgellm.tools.notation import NAME, with_raw_quotes
from edgellm.tools.source import Reading, ReplySource
from edgellm.tools.symbols import Symbols
from edgellm.tools.tool import Tool

OPEN, CLOSE = "<|tool_call>", "<tool_call|>"
_CALL = "call:"
_NOTATION = with_raw_quotes(QUOTE)


def _is_shown(source: str) -> bool:
    return OPEN in source


def _call(source: ReplySource, symbols: Symbols, maker: CallMaker) -> Reading[ToolCall]:
    yield from source.space()
    yield from source.expect(_CALL, what=_CALL)
    name, _ = yield from source.until("{", symbols[CLOSE], symbols[OPEN])
    maker.check_name(name.strip())
    arguments = yield from _NOTATION.object(source, symbols)
    yield from source.space()
    if (yield from source.peek()):
        yield from source.expect(symbols[CLOSE], what="the end of the call")
    return maker.call(name.strip(), arguments)


def _rules(grammar: Grammar) -> None:
    def call(tool: Tool) -> str:
        return f"{literal(_CALL + tool.name)} {argument_object(grammar, tool)}"

    grammar.start_repeated(OPEN, f"{grammar.of_each_tool(call)} {grammar.mark(CLOSE)}", "")


def _write(calls: Sequence[ToolCall]) -> Parts:
    parts: Parts = []
    for call in calls:
        parts += [(OPEN, True), (_CALL + call.name, False), *_written(call.arguments), (CLOSE, True)]
    return parts


def _written(value: Any) -> Parts:
    if isinstance(value, str):
        return [(QUOTE, True), (value, False), (QUOTE, True)]
    if isinstance(value, Mapping):
        ordered = sorted(value.items(), key=lambda item: item[0].lower())
        return _between("{", [[*_key(key), (":", False), *_written(item)] for key, item in ordered], "}")
    if isinstance(value, list):
        return _between("[", [_written(item) for item in value], "]")
    return [(to_json(value), False)]


def _key(name: str) -> Parts:
    return [(name, False)] if NAME.fullmatch(name) else _written(name)


def _between(opening: str, items: Sequence[Parts], closing: str) -> Parts:
    parts: Parts = [(opening, False)]
    for number, item in enumerate(items):
        parts += [*([(",", False)] if number else []), *item]
    return [*parts, (closing, False)]


GEMMA4 = CallFormat("gemma4", (OPEN, CLOSE, QUOTE), _is_shown, single_frames(OPEN, CLOSE, _call), _rules, _write)
