"""Calls as DeepSeek V3, R1 and V3.1 write them. (https://huggingface.co/deepseek-ai/DeepSeek-V3.1)

V3 and R1 put the arguments into a block of code, behind a line with the name:

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather
    ```json
    {"city": "Rome"}
    ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>

V3.1 has the name before the separator:

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"city": "Rome"}<｜tool▁call▁end｜>…
"""

from collections.abc import Sequence

from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats.json_calls import to_json
from edgellm.tools.grammar import Grammar, literal
from edgellm.tools.maker import CallMaker
from edgellm.tools.notation import JSON
from edgellm.tools.reader import Emit, Frame, FrameReader
from edgellm.tools.source import Reading, ReplySource
from edgellm.tools.symbols import Symbols
from edgellm.tools.tool import Tool

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, SEPARATOR, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
MARKS = (BEGIN, END, CALL, SEPARATOR, CALL_END)
_BLOCK, _BLOCK_END = "\n```json\n", "\n```"


def _is_shown(source: str) -> bool:
    return BEGIN in source and "```json" in source


def _is_shown_newer(source: str) -> bool:
    return BEGIN in source and "```json" not in source


def _read(symbols: Symbols, maker: CallMaker, begun: str) -> FrameReader:
    def body(source: ReplySource, _: str, emit: Emit) -> Reading[None]:
        found = 0
        while True:
            yield from source.space()
            if found and not (yield from source.peek()):
                return
            if (yield from source.expect(symbols[CALL], symbols[END], what="the beginning of a call")) == symbols[END]:
                return
            emit((yield from _call(source, symbols, maker)))
            found += 1

    return FrameReader(Frame([symbols[BEGIN]], [symbols[BEGIN], symbols[END]], body), symbols, begun)


def _call(source: ReplySource, symbols: Symbols, maker: CallMaker) -> Reading[ToolCall]:
    name, _ = yield from source.until(symbols[SEPARATOR], symbols[CALL_END], symbols[END])
    yield from source.expect(symbols[SEPARATOR], what="the separator behind the name")
    yield from source.space()
    has_block = (yield from source.peek()) != "{"
    if has_block:
        name = yield from source.through("\n")
        yield from source.space()
        yield from source.expect("```json", what="the block of arguments")
    maker.check_name(name.strip())
    arguments = yield from JSON.object(source, symbols)
    yield from source.space()
    if has_block:
        yield from source.expect("```", what="the end of the block of arguments")
        yield from source.space()
    yield from source.expect(symbols[CALL_END], what="the end of the call")
    return maker.call(name.strip(), arguments)


def _rules(grammar: Grammar) -> None:
    def call(tool: Tool) -> str:
        head = f'{grammar.mark(CALL)} "function" {grammar.mark(SEPARATOR)} {literal(tool.name + _BLOCK)}'
        return f"{head} {grammar.arguments(tool)} {literal(_BLOCK_END)} {grammar.mark(CALL_END)}"

    calls = grammar.repeated(grammar.of_each_tool(call), literal("\n"))
    grammar.start(BEGIN, f"{calls} {grammar.mark(END)}")


def _newer_rules(grammar: Grammar) -> None:
    def call(tool: Tool) -> str:
        head = f"{grammar.mark(CALL)} {literal(tool.name)} {grammar.mark(SEPARATOR)}"
        return f"{head} {grammar.arguments(tool)} {grammar.mark(CALL_END)}"

    grammar.start(BEGIN, f"{grammar.repeated(grammar.of_each_tool(call))} {grammar.mark(END)}")


def _write(calls: Sequence[ToolCall]) -> Parts:
    parts: Parts = [(BEGIN, True)]
    for call in calls:
        parts += [("\n", False)] if len(parts) > 1 else []
        arguments = f"{call.name}{_BLOCK}{to_json(dict(call.arguments))}{_BLOCK_END}"
        parts += [(CALL, True), ("function", False), (SEPARATOR, True), (arguments, False), (CALL_END, True)]
    return [*parts, (END, True)]


def _write_newer(calls: Sequence[ToolCall]) -> Parts:
    parts: Parts = [(BEGIN, True)]
    for call in calls:
        arguments = to_json(dict(call.arguments))
        parts += [(CALL, True), (call.name, False), (SEPARATOR, True), (arguments, False), (CALL_END, True)]
    return [*parts, (END, True)]


DEEPSEEK = CallFormat("deepseek", MARKS, _is_shown, _read, _rules, _write)
DEEPSEEK_NEWER = CallFormat("deepseek V3.1", MARKS, _is_shown_newer, _read, _newer_rules, _write_newer)
