"""Calls as Granite 3 writes them: a list, up to the end of the reply. (https://www.ibm.com/granite/docs)

<|tool_call|>[{"name": "weather", "arguments": {"city": "Rome"}}]
"""

from collections.abc import Sequence

from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats.json_calls import json_frames, json_object
from edgellm.tools.grammar import Grammar, literal

OPEN = "<|tool_call|>"


def _is_shown(source: str) -> bool:
    return OPEN in source or ("<|start_of_role|>available_tools" in source and "<tool_call>" not in source)


def _rules(grammar: Grammar) -> None:
    call = grammar.object()
    grammar.start(OPEN, f'"[" {grammar.repeated(call, literal(", "))} "]"')


def _write(calls: Sequence[ToolCall]) -> Parts:
    return [(OPEN, True), (f"[{', '.join(map(json_object, calls))}]", False)]


GRANITE = CallFormat("granite", (OPEN,), _is_shown, json_frames(OPEN), _rules, _write)
