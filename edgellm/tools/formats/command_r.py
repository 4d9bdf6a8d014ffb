"""Calls as Command R7B and Command A write them. (https://docs.cohere.com/docs/command-r7b-hf)

    <|START_ACTION|>[
        {"tool_call_id": "0", "tool_name": "weather", "parameters": {"city": "Rome"}}
    ]<|END_ACTION|>

The ids of the model are numbers that begin anew with each reply, so calls get others.
"""

from collections.abc import Sequence

from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats.json_calls import json_frames, json_object, to_json
from edgellm.tools.grammar import Grammar, literal
from edgellm.tools.tool import Tool

OPEN, CLOSE = "<|START_ACTION|>", "<|END_ACTION|>"


def _is_shown(source: str) -> bool:
    return OPEN in source


def _rules(grammar: Grammar) -> None:
    def call(tool: Tool) -> str:
        head = f'", "tool_name": {to_json(tool.name)}, "parameters": '
        return f'"{{\\"tool_call_id\\": \\"" NUMBER {literal(head)} {grammar.arguments(tool)} "}}"'

    grammar.add("NUMBER", "/[0-9]{1,4}/")
    rest = grammar.repeated(grammar.of_each_tool(call), literal(",\n    "))
    grammar.start(OPEN, f"{literal('[' + chr(10) + '    ')} {rest} {literal(chr(10) + ']')} {grammar.mark(CLOSE)}")


def _write(calls: Sequence[ToolCall]) -> Parts:
    written = (
        f'    {{"tool_call_id": "{number}", {json_object(call, "tool_name", "parameters")[1:]}'
        for number, call in enumerate(calls)
    )
    return [(OPEN, True), ("[\n" + ",\n".join(written) + "\n]", False), (CLOSE, True)]


COMMAND_R = CallFormat("command_r", (OPEN, CLOSE), _is_shown, json_frames(OPEN, CLOSE), _rules, _write)
