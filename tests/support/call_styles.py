"""Replies with calls, written by hand as the models of each family write them."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from edgellm.tools.call_format import CallFormat
from edgellm.tools.calls import BrokenCall, Event, ToolCall
from edgellm.tools.formats import FORMATS
from edgellm.tools.symbols import Mark
from edgellm.tools.tool import Tool, tools_of

BY_NAME = {form.name: form for form in FORMATS}


def weather(city: str, days: int = 1, exact: bool = False, tags: list[str] | None = None, more: Any = None) -> str:
    """Get the weather."""
    return f"{city} {days} {exact} {tags} {more}"


def clock() -> str:
    """Tell the time."""
    return "12"


TOOLS: dict[str, Tool] = tools_of([weather, clock])

ROME: dict[str, Any] = {"city": "Rome", "days": 3}
ODD: dict[str, Any] = {
    "city": "São \"Tomé\" 'x' \\ </b>\n  y",
    "exact": True,
    "tags": ["a, b", "}]"],
    "more": {"n": [1.5, None]},
}
_ODD_JSON = (
    r'{"city": "São \"Tomé\" \u0027x\u0027 \\ </b>\n  y", '
    '"exact": true, "tags": ["a, b", "}]"], "more": {"n": [1.5, null]}}'
)

# For each format: replies of two calls, the second without arguments, with text in front.
TWO_CALLS = {
    "hermes": 'Let me see.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "days": 3}}\n</tool_call>\n'
    '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>',
    "qwen3_coder": "Let me see.\n\n<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n"
    "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\n"
    "<tool_call>\n<function=clock>\n</function>\n</tool_call>",
    "glm": "Let me see.\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>clock\n</tool_call>",
    "glm 4.7": "Let me see.<tool_call>weather<arg_key>city</arg_key><arg_value>Rome</arg_value><arg_key>days</arg_key>"
    "<arg_value>3</arg_value></tool_call><tool_call>clock</tool_call>",
    "deepseek": "Let me see.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n"
    '{"city": "Rome", "days": 3}\n```<｜tool▁call▁end｜>\n'
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>clock\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek V3.1": "Let me see.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>"
    '{"city": "Rome", "days": 3}<｜tool▁call▁end｜><｜tool▁call▁begin｜>clock<｜tool▁sep｜>{}<｜tool▁call▁end｜>'
    "<｜tool▁calls▁end｜>",
    "mistral": 'Let me see.[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Rome", "days": 3}}, '
    '{"name": "clock", "arguments": {}}]',
    "mistral v11": 'Let me see.[TOOL_CALLS]weather[ARGS]{"city": "Rome", "days": 3}[TOOL_CALLS]clock[ARGS]{}',
    "llama3": '{"name": "weather", "parameters": {"city": "Rome", "days": 3}}; {"name": "clock", "parameters": {}}',
    "gemma4": "Let me see."
    '<|tool_call>call:weather{city:<|"|>Rome<|"|>,days:3}<tool_call|><|tool_call>call:clock{}<tool_call|>',
    "lfm2": 'Let me see.<|tool_call_start|>[weather(city="Rome", days=3), clock()]<|tool_call_end|>',
    "command_r": 'Let me see.<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "weather", "parameters": '
    '{"city": "Rome", "days": 3}},\n    {"tool_call_id": "1", "tool_name": "clock", "parameters": {}}\n]<|END_ACTION|>',
    "granite": 'Let me see.<|tool_call|>[{"name": "weather", "arguments": {"city": "Rome", "days": 3}}, '
    '{"arguments": {}, "name": "clock"}]',
    "functionary": 'all\nLet me see.>>>weather\n{"city": "Rome", "days": 3}>>>clock\n{}',
    "functionary v3.1": "Let me see."
    '<function=weather>{"city": "Rome", "days": 3}</function><function=clock>{}</function>',
    "harmony": "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant<|channel|>commentary "
    'to=functions.weather <|constrain|>json<|message|>{"city": "Rome", "days": 3}<|call|><|start|>assistant '
    "to=functions.clock<|channel|>commentary json<|message|>{}<|call|>",
}
WITH_TEXT = frozenset(TWO_CALLS) - {"llama3"}
"""The formats whose calls may stand behind text."""

# Replies of one call with what is hard to write in the format.
ODD_CALLS = {
    "hermes": f'<tool_call>\n{{"name": "weather", "arguments": {_ODD_JSON}}}\n</tool_call>',
    "qwen3_coder": "<tool_call>\n<function=weather>\n<parameter=city>\nSão \"Tomé\" 'x' \\ </b>\n  y\n</parameter>\n"
    '<parameter=exact>\nTrue\n</parameter>\n<parameter=tags>\n["a, b", "}]"]\n</parameter>\n<parameter=more>\n'
    "{'n': [1.5, None]}\n</parameter>\n</function>\n</tool_call>",
    "glm": "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>São \"Tomé\" 'x' \\ </b>\n  y</arg_value>\n"
    "<arg_key>exact</arg_key>\n<arg_value>true</arg_value>\n<arg_key>tags</arg_key>\n"
    '<arg_value>["a, b", "}]"]</arg_value>\n<arg_key>more</arg_key>\n'
    '<arg_value>{"n": [1.5, null]}</arg_value>\n</tool_call>',
    "glm 4.7": "<tool_call>weather<arg_key>city</arg_key><arg_value>São \"Tomé\" 'x' \\ </b>\n  y</arg_value>"
    '<arg_key>exact</arg_key><arg_value>true</arg_value><arg_key>tags</arg_key><arg_value>["a, b", "}]"]</arg_value>'
    '<arg_key>more</arg_key><arg_value>{"n": [1.5, null]}</arg_value></tool_call>',
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n"
    f"{_ODD_JSON}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek V3.1": f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{_ODD_JSON}<｜tool▁call▁end｜>"
    "<｜tool▁calls▁end｜>",
    "mistral": f'[TOOL_CALLS][{{"name": "weather", "arguments": {_ODD_JSON}}}]',
    "mistral v11": f"[TOOL_CALLS]weather[ARGS]{_ODD_JSON}",
    "llama3": f'<|python_tag|>{{"type": "function", "name": "weather", "parameters": {_ODD_JSON}}}',
    "gemma4": '<|tool_call>call:weather{city:<|"|>São "Tomé" \'x\' \\ </b>\n  y<|"|>,exact:true,'
    'more:{n:[1.5,null]},tags:[<|"|>a, b<|"|>,"}]"]}<tool_call|>',
    "lfm2": "<|tool_call_start|>[weather(city='São \"Tomé\" \\'x\\' \\\\ </b>\\n  y', exact=True, "
    "tags=['a, b', \"}]\"], more={'n': [1.5, None]})]<|tool_call_end|>",
    "command_r": '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "weather", '
    f'"parameters": {_ODD_JSON}}}]<|END_ACTION|>',
    "granite": f'<|tool_call|>[{{"arguments": {_ODD_JSON}, "name": "weather"}}]',
    "functionary": f"weather\n{_ODD_JSON}",
    "functionary v3.1": f"<function=weather>{_ODD_JSON}</function>",
    "harmony": f"<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{_ODD_JSON}<|call|>",
}
Piece = str | Mark


def pieces_of(form: CallFormat, reply: str, tokens: Iterable[str]) -> list[Piece]:
    """A reply cut at those marks that are tokens."""
    if not (known := sorted(tokens, key=len, reverse=True)):
        return [reply]
    parts = re.split(f"({'|'.join(map(re.escape, known))})", reply)
    return [Mark(part) if part in known else part for part in parts if part]


def characters(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces, with their text cut at every character."""
    return [each for piece in pieces for each in (piece if isinstance(piece, str) else [piece])]


def read(form: CallFormat, pieces: Iterable[Piece], tokens: Iterable[str] = (), begun: str = "") -> list[Event]:
    """What a reader of the format gives for a reply, with text joined."""
    reader, found = form.reader(TOOLS, set(tokens), begun), list[Event]()
    for event in (event for piece in pieces for event in reader.push(piece)):
        found.append(event)
    return merged([*found, *reader.flush()])


def merged(events: Sequence[Event]) -> list[Event]:
    """Events with texts in a row joined."""
    made = list[Event]()
    for event in events:
        if isinstance(event, str) and made and isinstance(made[-1], str):
            made[-1] += event
        elif event != "":
            made.append(event)
    return made


def calls_in(events: Iterable[Event]) -> list[tuple[str, dict[str, Any]]]:
    """The names and arguments of the calls."""
    return [(event.name, dict(event.arguments)) for event in events if isinstance(event, ToolCall)]


def broken_in(events: Iterable[Event]) -> list[BrokenCall]:
    """The calls that do not parse."""
    return [event for event in events if isinstance(event, BrokenCall)]


def text_in(events: Iterable[Event]) -> str:
    """The text."""
    return "".join(event for event in events if isinstance(event, str))


Reader = Callable[[Iterable[Piece]], list[Event]]
