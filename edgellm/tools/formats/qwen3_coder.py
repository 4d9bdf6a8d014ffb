"""Calls as Qwen3-Coder and Qwen3.5 write them: tags, with values as they are. (https://github.com/QwenLM/Qwen3-Coder)

    <tool_call>
    <function=weather>
    <parameter=city>
    Rome
    </parameter>
    </function>
    </tool_call>

A value ends where the next parameter or the end of the function follows its closing tag, so that it may hold the tag.
The marks around a call are tokens, which no text of a value is.
"""

from collections.abc import Sequence
from typing import Any

from edgellm.tools.argument_rules import arguments_of, check_names, items, sequence
from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats.json_calls import to_json
from edgellm.tools.formats.single_calls import single_frames
from edgellm.tools.formats.tagged_values import value_of, value_rule
from edgellm.tools.grammar import Grammar, literal, pattern
from edgellm.tools.maker import CallMaker
from edgellm.tools.schemas import Definitions
from edgellm.tools.source import Reading, ReplySource
from edgellm.tools.symbols import Symbols
from edgellm.tools.tool import Tool

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END = "<function=", "</function>"
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"
_SPACE = "[\\s\\x1c-\\x1f]*"  # what str.lstrip removes


def _is_shown(source: str) -> bool:
    return OPEN in source and _FUNCTION in source and _PARAMETER in source


def _call(source: ReplySource, symbols: Symbols, maker: CallMaker) -> Reading[ToolCall]:
    yield from source.space()
    yield from source.expect(_FUNCTION, what="the tag of the function")
    tool = maker.check_name((yield from _tag_name(source)))
    arguments = dict[str, Any]()
    yield from source.space()
    while (yield from source.expect(_PARAMETER, _FUNCTION_END, what="the end of the function")) == _PARAMETER:
        name = yield from _tag_name(source)
        text = yield from _value(source, symbols)
        arguments[name] = value_of(tool, name, text)
        yield from source.space()
    yield from source.space()
    if (yield from source.peek()):
        yield from source.expect(symbols[CLOSE], what="the end of the call")
    return maker.call(tool.name, arguments)


def _tag_name(source: ReplySource) -> Reading[str]:
    name, _ = yield from source.until(">", "\n")
    yield from source.expect(">", what="the end of a tag")
    return name.strip()


def _value(source: ReplySource, symbols: Symbols) -> Reading[str]:
    """The text of a value, without the line ends at its tags."""
    parts = list[str]()
    while True:
        parts.append((yield from source.through(_PARAMETER_END)))
        while (closed := _is_closed(source.rest(), symbols[CLOSE], source.ended)) is None:
            yield
        if closed:
            return symbols.written("".join(parts)).removeprefix("\n").removesuffix("\n")
        parts.append(_PARAMETER_END)


def _is_closed(rest: str, end: str, ended: bool) -> bool | None:
    """Whether what follows a closing tag shows that the value ends there; None as long as it is too short to tell."""
    rest = rest.lstrip()
    for tag, behind in ((_PARAMETER, ""), (_FUNCTION_END, end)):
        if rest.startswith(tag):
            following = rest.removeprefix(tag).lstrip() if behind else behind
            cut_off = behind.startswith(following)
            return True if following.startswith(behind) or (cut_off and ended) else None if cut_off else False
        if tag.startswith(rest):
            return ended and not rest if ended else None
    return False


def _rules(grammar: Grammar) -> None:
    def call(tool: Tool) -> str:
        defined, schema = arguments_of(tool)
        check_names(defined, schema)
        found = items(schema, "parameters", lambda *each: _argument(grammar, defined, *each))
        arguments = sequence(grammar, "", found, "")
        return f"{literal(f'{tool.name}>{chr(10)}')} {arguments}"

    inside = f"{literal(chr(10) + _FUNCTION)} {grammar.of_each_tool(call)} {literal(_FUNCTION_END + chr(10))}"
    grammar.start_repeated(OPEN, f"{inside} {grammar.mark(CLOSE)}", literal("\n"))


def _argument(grammar: Grammar, defined: Definitions, name: str, schema: Any, place: str) -> str:
    value = value_rule(grammar, defined, schema, place, f"\n{_PARAMETER_END}\n", _closed(grammar))
    return f"{literal(f'{_PARAMETER}{name}>{chr(10)}')} {value}"


def _closed(grammar: Grammar) -> str:
    """A regular expression of what ends a value for `_is_closed`: inside of a text it would begin another argument."""
    function = "" if grammar.is_token(CLOSE) else f"|{pattern(_FUNCTION_END)}{_SPACE}{pattern(CLOSE)}"
    return f"{pattern(_PARAMETER_END)}{_SPACE}(?:{pattern(_PARAMETER)}{function})"


def _write(calls: Sequence[ToolCall]) -> Parts:
    parts: Parts = []
    for call in calls:
        parts += [("\n", False)] if parts else []
        inside = "".join(_written(name, value) for name, value in call.arguments.items())
        parts += [(OPEN, True), (f"\n{_FUNCTION}{call.name}>\n{inside}{_FUNCTION_END}\n", False), (CLOSE, True)]
    return parts


def _written(name: str, value: Any) -> str:
    return f"{_PARAMETER}{name}>\n{value if isinstance(value, str) else to_json(value)}\n{_PARAMETER_END}\n"


QWEN3_CODER = CallFormat(
    "qwen3_coder",
    (OPEN, CLOSE),
    _is_shown,
    single_frames(OPEN, CLOSE, _call),
    _rules,
    _write,
    ("<tool_response>", "</tool_response>"),
)
