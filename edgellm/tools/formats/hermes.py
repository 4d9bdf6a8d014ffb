"""Calls as Hermes, Qwen 2.5, Qwen 3 and Granite 4 write them. (https://github.com/NousResearch/Hermes-Function-Calling)

<tool_call>
{"name": "weather", "arguments": {"city": "Rome"}}
</tool_call>
"""

from collections.abc import Sequence

from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats.json_calls import json_frames, json_object
from edgellm.tools.grammar import Grammar

OPEN, CLOSE = "<tool_call>", "</tool_call>"


def _is_shown(source: str) -> bool:
    return OPEN in source


def _rules(grammar: Grammar) -> None:
    grammar.start_repeated(OPEN, f'"\\n" {grammar.object()} "\\n" {grammar.mark(CLOSE)}', '"\\n"')


def _write(calls: Sequence[ToolCall]) -> Parts:
    parts: Parts = []
    for call in calls:
        parts += [("\n", False)] if parts else []
        parts += [(OPEN, True), (f"\n{json_object(call)}\n", False), (CLOSE, True)]
    return parts


HERMES = CallFormat(
    "hermes",
    (OPEN, CLOSE),
    _is_shown,
    json_frames(OPEN, CLOSE),
    _rules,
    _write,
    ("<tool_response>", "</tool_response>"),
)
