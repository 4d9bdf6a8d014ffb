"""Calls as Functionary writes them. (https://github.com/MeetKai/functionary)

v3.2 addresses everything it says; the prompt ends with >>>, and text is addressed to all:

    all
    Let me see.>>>weather
    {"city": "Rome"}

v3.1 puts calls into tags:

    <function=weather>{"city": "Rome"}</function>
"""

from collections.abc import Sequence

from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats.json_calls import to_json
from edgellm.tools.grammar import ANY, Grammar, literal, pattern
from edgellm.tools.maker import CallMaker
from edgellm.tools.notation import JSON
from edgellm.tools.reader import Emit, Frame, FrameReader, NotACallError
from edgellm.tools.source import Reading, ReplySource
from edgellm.tools.symbols import Symbols
from edgellm.tools.tool import Tool

TO, ALL = ">>>", "all\n"
TAG, TAG_END = "<function=", "</function>"


def _is_shown(source: str) -> bool:
    return f"{TO}all" in source


def _is_shown_tagged(source: str) -> bool:
    return TAG in source and TAG_END in source and "<parameter=" not in source


def _read(symbols: Symbols, maker: CallMaker, begun: str) -> FrameReader:
    headers = [ALL, *(f"{name}\n" for name in maker.tools)]

    def body(source: ReplySource, opener: str, emit: Emit) -> Reading[None]:
        header = (yield from source.takes(*headers)) if opener == TO else opener
        if header in ("", ALL):
            raise NotACallError("" if header else None)
        emit(maker.call(header.rstrip("\n"), (yield from JSON.object(source, symbols))))

    return FrameReader(Frame([TO], [TO], body, leads=headers), symbols, begun)


def _read_tagged(symbols: Symbols, maker: CallMaker, begun: str) -> FrameReader:
    def body(source: ReplySource, _: str, emit: Emit) -> Reading[None]:
        name, _ = yield from source.until(">", "{", "\n")
        yield from source.expect(">", what="the end of the tag")
        maker.check_name(name)
        arguments = yield from JSON.object(source, symbols)
        yield from source.space()
        if (yield from source.peek()):
            yield from source.expect(TAG_END, what=TAG_END)
        emit(maker.call(name, arguments))

    return FrameReader(Frame([TAG], [TAG, TAG_END], body), symbols, begun)


def _rules(grammar: Grammar) -> None:
    def call(tool: Tool) -> str:
        return f"{literal(f'{tool.name}{chr(10)}')} {grammar.arguments(tool)}"

    def behind_text(tool: Tool) -> str:
        opened = grammar.add(f"opened_{number[tool.name]}[lazy]", f"/{ANY}{TO}{pattern(f'{tool.name}{chr(10)}')}/")
        return f"{opened} {grammar.arguments(tool)} {more}"

    if not grammar.may_call:
        alone = grammar.text_without(*(f"{TO}{name}\n" for name in grammar.tools))
        grammar.add("start", f"{literal(ALL)} {alone}")
        return
    number = {name: i for i, name in enumerate(grammar.tools)}
    one = grammar.of_each_tool(call)
    more = f"({literal(TO)} {one})*" if grammar.parallel else ""
    text = "" if grammar.must_call else f" | {literal(ALL)} ({grammar.any_text()} | behind_text)"
    grammar.add("start", f"{one} {more}{text}")
    if text:
        grammar.add("behind_text", " | ".join(map(behind_text, grammar.tools.values())))


def _tagged_rules(grammar: Grammar) -> None:
    def call(tool: Tool) -> str:
        return f"{literal(f'{tool.name}>')} {grammar.arguments(tool)} {literal(TAG_END)}"

    grammar.start_repeated(TAG, grammar.of_each_tool(call), "")


def _write(calls: Sequence[ToolCall]) -> Parts:
    return [(TO.join(f"{call.name}\n{to_json(dict(call.arguments))}" for call in calls), False)]


def _write_tagged(calls: Sequence[ToolCall]) -> Parts:
    return [("".join(f"{TAG}{call.name}>{to_json(dict(call.arguments))}{TAG_END}" for call in calls), False)]


FUNCTIONARY = CallFormat("functionary", (), _is_shown, _read, _rules, _write)
FUNCTIONARY_TAGGED = CallFormat("functionary v3.1", (), _is_shown_tagged, _read_tagged, _tagged_rules, _write_tagged)
