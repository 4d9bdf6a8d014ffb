"""Calls as Mistral's models write them. (https://docs.mistral.ai/capabilities/function_calling, mistral-common)

Up to the tokenizer v7, a list:

    [TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Rome"}, "id": "VvvODy9mT"}]

From v11 on, a name and arguments for each call, in v11 with an id between them:

    [TOOL_CALLS]weather[ARGS]{"city": "Rome"}[TOOL_CALLS]time[CALL_ID]VvvODy9mT[ARGS]{}
"""

from collections.abc import Sequence

from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import ID_LENGTH, ToolCall
from edgellm.tools.formats.json_calls import json_calls, to_json
from edgellm.tools.grammar import Grammar, literal
from edgellm.tools.maker import CallMaker
from edgellm.tools.notation import JSON
from edgellm.tools.reader import Emit, Frame, FrameReader
from edgellm.tools.source import Reading, ReplySource
from edgellm.tools.symbols import Symbols
from edgellm.tools.tool import Tool

OPEN, ID, ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_ID_PATTERN = f"[a-zA-Z0-9]{{{ID_LENGTH}}}"


def _is_shown(source: str) -> bool:
    return OPEN in source and ARGUMENTS not in source


def _is_shown_newer(source: str) -> bool:
    return OPEN in source and ARGUMENTS in source


def _read(symbols: Symbols, maker: CallMaker, begun: str) -> FrameReader:
    def body(source: ReplySource, _: str, emit: Emit) -> Reading[None]:
        yield from source.space()
        if (yield from source.peek()) in ("[", "{"):
            for call in (yield from json_calls(source, symbols, maker, emit)):
                emit(call)
        else:
            emit((yield from _named(source, symbols, maker)))

    return FrameReader(Frame([symbols[OPEN]], [symbols[OPEN]], body), symbols, begun)


def _named(source: ReplySource, symbols: Symbols, maker: CallMaker) -> Reading[ToolCall]:
    """A name, perhaps an id, and arguments."""
    own_id = ""
    name, mark = yield from source.until(symbols[ARGUMENTS], symbols[ID], symbols[OPEN], "{")
    maker.check_name(name.strip())
    if mark == symbols[ID]:
        yield from source.expect(symbols[ID], what="the id")
        own_id, _ = yield from source.until(symbols[ARGUMENTS], symbols[OPEN], "{")
    yield from source.expect(symbols[ARGUMENTS], what=ARGUMENTS)
    return maker.call(name.strip(), (yield from JSON.object(source, symbols)), own_id.strip())


def _rules(grammar: Grammar) -> None:
    def call(tool: Tool) -> str:
        head = literal(f'{{"name": {to_json(tool.name)}, "arguments": ')
        return f'{head} {grammar.arguments(tool)} ("}}" | ", \\"id\\": \\"" CALL_ID "\\"}}")'

    grammar.add("CALL_ID", f"/{_ID_PATTERN}/")
    calls = grammar.repeated(grammar.of_each_tool(call), literal(", "))
    grammar.start(OPEN, f'" "? "[" {calls} "]"')


def _newer_rules(grammar: Grammar) -> None:
    def call(tool: Tool) -> str:
        own_id = f"({grammar.mark(ID)} /{_ID_PATTERN}/)?"
        return f"{literal(tool.name)} {own_id} {grammar.mark(ARGUMENTS)} {grammar.arguments(tool)}"

    grammar.start_repeated(OPEN, grammar.of_each_tool(call), "")


def _write(calls: Sequence[ToolCall]) -> Parts:
    written = (
        f'{{"name": {to_json(call.name)}, "arguments": {to_json(dict(call.arguments))}, "id": {to_json(call.id)}}}'
        for call in calls
    )
    return [(OPEN, True), (f"[{', '.join(written)}]", False)]


def _write_newer(calls: Sequence[ToolCall]) -> Parts:
    parts: Parts = []
    for call in calls:
        parts += [(OPEN, True), (call.name, False), (ARGUMENTS, True), (to_json(dict(call.arguments)), False)]
    return parts


MISTRAL = CallFormat("mistral", (OPEN, ID, ARGUMENTS), _is_shown, _read, _rules, _write)
MISTRAL_NEWER = CallFormat("mistral v11", (OPEN, ID, ARGUMENTS), _is_shown_newer, _read, _newer_rules, _write_newer)
