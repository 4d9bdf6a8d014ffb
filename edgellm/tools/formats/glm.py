"""Calls as GLM-4.5 to 4.7 write them. (https://huggingface.co/zai-org/GLM-4.6)

    <tool_call>weather
    <arg_key>city</arg_key>
    <arg_value>Rome</arg_value>
    </tool_call>

GLM-4.7 leaves out the line ends. All marks are tokens.
"""

from collections.abc import Callable, Sequence
from typing import Any

from edgellm.tools.argument_rules import arguments_of, check_names, items, sequence
from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats.json_calls import to_json
from edgellm.tools.formats.single_calls import single_frames
from edgellm.tools.formats.tagged_values import value_of, value_rule
from edgellm.tools.grammar import Grammar, literal
from edgellm.tools.maker import CallMaker
from edgellm.tools.schemas import Definitions
from edgellm.tools.source import Reading, ReplySource
from edgellm.tools.symbols import Symbols
from edgellm.tools.tool import Tool

OPEN, CLOSE = "<tool_call>", "</tool_call>"
KEY, KEY_END, VALUE, VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"
MARKS = (OPEN, CLOSE, KEY, KEY_END, VALUE, VALUE_END)

_RESULT_MARKS = ("<tool_response>", "</tool_response>")


def _is_shown(source: str) -> bool:
    return OPEN in source and KEY in source and f"{KEY_END}{VALUE}" not in source


def _is_shown_newer(source: str) -> bool:
    return OPEN in source and f"{KEY_END}{VALUE}" in source


def _call(source: ReplySource, symbols: Symbols, maker: CallMaker) -> Reading[ToolCall]:
    yield from source.space()
    name, _ = yield from source.until("\n", symbols[KEY], symbols[CLOSE])
    tool = maker.check_name(name.strip())
    arguments = dict[str, Any]()
    while True:
        yield from source.space()
        found = yield from source.expect(symbols[KEY], symbols[CLOSE], what="an argument or the end of the call")
        if found == symbols[CLOSE]:
            return maker.call(tool.name, arguments)
        key = symbols.written((yield from source.through(symbols[KEY_END]))).strip()
        yield from source.space()
        yield from source.expect(symbols[VALUE], what="a value")
        arguments[key] = value_of(tool, key, symbols.written((yield from source.through(symbols[VALUE_END]))))


def _rules_with(line_end: str) -> Callable[[Grammar], None]:
    def rules(grammar: Grammar) -> None:
        def call(tool: Tool) -> str:
            defined, schema = arguments_of(tool)
            check_names(defined, schema)
            found = items(schema, "parameters", lambda *each: _argument(grammar, defined, line_end, *each))
            return f"{literal(tool.name + line_end)} {sequence(grammar, '', found, '')} {grammar.mark(CLOSE)}"

        grammar.start_repeated(OPEN, grammar.of_each_tool(call), literal(line_end) if line_end else "")

    return rules


def _argument(grammar: Grammar, defined: Definitions, line_end: str, name: str, schema: Any, place: str) -> str:
    gap = literal(line_end) if line_end else ""
    key = f"{grammar.mark(KEY)} {literal(name)} {grammar.mark(KEY_END)} {gap} {grammar.mark(VALUE)}"
    return f"{key} {value_rule(grammar, defined, schema, place, VALUE_END)} {gap}"


def _write_with(line_end: str) -> Callable[[Sequence[ToolCall]], Parts]:
    gap: Parts = [(line_end, False)] if line_end else []

    def write(calls: Sequence[ToolCall]) -> Parts:
        parts: Parts = []
        for call in calls:
            parts += [*(gap if parts else []), (OPEN, True), (call.name + line_end, False)]
            for name, value in call.arguments.items():
                text = value if isinstance(value, str) else to_json(value)
                parts += [(KEY, True), (name, False), (KEY_END, True), *gap]
                parts += [(VALUE, True), (text, False), (VALUE_END, True), *gap]
            parts.append((CLOSE, True))
        return parts

    return write


GLM = CallFormat(
    "glm", MARKS, _is_shown, single_frames(OPEN, CLOSE, _call), _rules_with("\n"), _write_with("\n"), _RESULT_MARKS
)
GLM_NEWER = CallFormat(
    "glm 4.7",
    MARKS,
    _is_shown_newer,
    single_frames(OPEN, CLOSE, _call),
    _rules_with(""),
    _write_with(""),
    _RESULT_MARKS,
)
