"""Calls as LFM2 writes them: a list of Python calls. (https://docs.liquid.ai/lfm/key-concepts/tool-use)

    <|tool_call_start|>[weather(city="Rome"), time()]<|tool_call_end|>

Asked for JSON, the model writes a list of JSON objects there.
"""

from collections.abc import Sequence
from typing import Any

from edgellm.tools.argument_rules import arguments_of, check_names, items, sequence
from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats.json_calls import listed, to_json
from edgellm.tools.grammar import Grammar, literal
from edgellm.tools.maker import CallMaker
from edgellm.tools.notation import JSON, NAME, PYTHON
from edgellm.tools.reader import Emit, Frame, FrameReader
from edgellm.tools.schemas import Definitions
from edgellm.tools.source import CUT_OFF, MalformedError, Reading, ReplySource
from edgellm.tools.symbols import Symbols
from edgellm.tools.tool import Tool

OPEN, CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"


def _is_shown(source: str) -> bool:
    return OPEN in source or "<|tool_list_start|>" in source


def _read(symbols: Symbols, maker: CallMaker, begun: str) -> FrameReader:
    def body(source: ReplySource, _: str, emit: Emit) -> Reading[None]:
        def item() -> Reading[Sequence[ToolCall]]:
            if (yield from source.peek()) == "{":
                return maker.calls((yield from JSON.value(source, symbols)))
            return [(yield from _python_call(source, symbols, maker))]

        yield from source.space()
        yield from source.expect("[", what="the list of calls")
        yield from listed(source, item, emit)
        yield from source.space()
        if (yield from source.peek()):
            yield from source.expect(symbols[CLOSE], what="the end of the calls")

    return FrameReader(Frame([symbols[OPEN]], [symbols[OPEN], symbols[CLOSE]], body), symbols, begun)


def _python_call(source: ReplySource, symbols: Symbols, maker: CallMaker) -> Reading[ToolCall]:
    name = yield from source.word(NAME)
    if not (yield from source.peek()):
        raise MalformedError(CUT_OFF)
    maker.check_name(name)
    yield from source.expect("(", what="the arguments")
    return maker.call(name, (yield from PYTHON.keywords(source, symbols)))


def _rules(grammar: Grammar) -> None:
    def call(tool: Tool) -> str:
        defined, schema = arguments_of(tool)
        check_names(defined, schema, NAME)
        found = items(schema, "parameters", lambda name, value, place: _keyword(grammar, defined, name, value))
        number = list(grammar.tools).index(tool.name)
        return f'{literal(f"{tool.name}(")} {sequence(grammar, f"arguments_{number}", found, ", ")} ")"'

    calls = grammar.repeated(grammar.of_each_tool(call), literal(", "))
    grammar.start(OPEN, f'"[" {calls} "]" {grammar.mark(CLOSE)}')


def _keyword(grammar: Grammar, defined: Definitions, name: str, schema: Any) -> str:
    """An argument: Python's constants, and JSON for all values whose literals in Python are alike."""
    bare = schema.keys() <= {"type", "title", "description", "default"} if isinstance(schema, dict) else False
    value = '("True" | "False")' if bare and schema.get("type") == "boolean" else grammar.json(defined.whole(schema))
    return f"{literal(f'{name}=')} {value}"


def _write(calls: Sequence[ToolCall]) -> Parts:
    written = ", ".join(f"{call.name}({_keywords(call)})" for call in calls)
    return [(OPEN, True), (f"[{written}]", False), (CLOSE, True)]


def _keywords(call: ToolCall) -> str:
    return ", ".join(
        f"{name}={value if isinstance(value, bool | None) else to_json(value)}"
        for name, value in call.arguments.items()
    )


LFM2 = CallFormat("lfm2", (OPEN, CLOSE), _is_shown, _read, _rules, _write)
