"""Calls as Llama 3.1 to 3.3 write them: the reply is the call. (https://www.llama.com/docs/model-cards-and-prompt-formats)

    {"name": "weather", "parameters": {"city": "Rome"}}

Tools that the model was trained on come behind a token, also as calls of a Python method:

    <|python_tag|>weather.call(city="Rome")

JSON that is no call is an answer: a call is an object that begins with the name of a tool, or the type "function".
"""

from collections.abc import Sequence
from typing import Any

from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats.json_calls import json_calls, json_object
from edgellm.tools.grammar import ANY, Grammar, pattern
from edgellm.tools.maker import ARGUMENTS, CallMaker
from edgellm.tools.notation import JSON, PYTHON
from edgellm.tools.reader import Emit, Frame, FrameReader, NotACallError
from edgellm.tools.source import MalformedError, Reading, ReplySource
from edgellm.tools.symbols import Symbols

TAG = "<|python_tag|>"
_FIRST_KEYS = ("name", "type")
_KEYS = (*_FIRST_KEYS, "id", *ARGUMENTS)
_METHOD = ".call("


def _is_shown(source: str) -> bool:
    return "<|start_header_id|>" in source and "tool_calls" in source and ('"parameters": ' in source or TAG in source)


def _read(symbols: Symbols, maker: CallMaker, begun: str) -> FrameReader:
    def body(source: ReplySource, opener: str, emit: Emit) -> Reading[None]:
        if opener == symbols[TAG]:
            yield from _tagged(source, symbols, maker, emit)
            return
        if opener == ";":
            yield from source.space()
            if not (yield from source.takes("{")):
                raise NotACallError
        emit((yield from _bare(source, symbols, maker)))

    frame = Frame([symbols[TAG]], [symbols[TAG]], body, leads=("{", ";"))
    return FrameReader(frame, symbols, begun)


def _tagged(source: ReplySource, symbols: Symbols, maker: CallMaker, emit: Emit) -> Reading[None]:
    """Behind the token: JSON, or a method call. Anything else is code of Python, which is no tool."""
    yield from source.space()
    if (yield from source.peek()) in ("{", "["):
        for call in (yield from json_calls(source, symbols, maker, emit)):
            emit(call)
        return
    name, _ = yield from source.until("(", "\n", symbols[TAG])
    if not name.endswith(_METHOD[:-1]):
        raise MalformedError("it is neither JSON nor the call of a tool")
    maker.check_name(name := name.removesuffix(_METHOD[:-1]).strip())
    yield from source.expect("(", what="the arguments")
    emit(maker.call(name, (yield from PYTHON.keywords(source, symbols))))


def _bare(source: ReplySource, symbols: Symbols, maker: CallMaker) -> Reading[ToolCall]:
    """The rest of an object that may be a call. Raises NotACallError as soon as it is none."""
    found = dict[str, Any]()
    while True:
        try:
            key = yield from JSON.key(source, symbols)
            if key not in (_KEYS if found else _FIRST_KEYS):
                raise NotACallError
            found[key] = yield from JSON.value(source, symbols)
            if found.get("type", "function") != "function" or found.get("name") not in (None, *maker.tools):
                raise NotACallError
            yield from source.space()
            if (yield from source.expect(",", "}", what="a comma or the end of the call")) == "}":
                break
        except MalformedError:
            if "name" in found:
                raise
            raise NotACallError from None
    if "name" not in found or not any(key in found for key in ARGUMENTS):
        raise NotACallError
    return maker.calls(found)[0]


def _rules(grammar: Grammar) -> None:
    call = grammar.object(arguments="parameters")
    calls = grammar.repeated(call, '"; "')
    names, space = "|".join(map(pattern, grammar.tools)), "[ \\t\\r\\n]*"
    first = f'"name"{space}:{space}"({names})"|"type"{space}:{space}"function"'
    alone = f"/{ANY}/ & ~/[ \\t\\r\\n;]*[{{]{space}({first}){ANY}/"
    text = grammar.add("TEXT_ALONE", alone) if grammar.tools else grammar.any_text()
    tagged = f" | {grammar.mark(TAG)} {calls}" if grammar.is_token(TAG) else ""
    if grammar.must_call:
        grammar.add("start", f"{calls}{tagged}")
    elif grammar.may_call:
        grammar.add("start", f"{text} | {calls}{tagged}")
    else:
        grammar.add("start", text)


def _write(calls: Sequence[ToolCall]) -> Parts:
    return [("; ".join(json_object(call, arguments="parameters") for call in calls), False)]


LLAMA3 = CallFormat("llama3", (TAG,), _is_shown, _read, _rules, _write)
