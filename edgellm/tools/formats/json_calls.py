"""What formats have in common whose calls are JSON between two marks."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from edgellm.tools.calls import ToolCall
from edgellm.tools.maker import CallMaker
from edgellm.tools.notation import JSON
from edgellm.tools.reader import Emit, Frame, FrameReader
from edgellm.tools.source import Reading, ReplySource
from edgellm.tools.symbols import Symbols


def json_frames(opener: str, *closers: str) -> Callable[[Symbols, CallMaker, str], FrameReader]:
    """Makes readers of calls behind the mark `opener`: JSON objects or lists of them, up to one of `closers`.

    The end of the reply closes JSON that is complete, as small models forget the closing mark. Without closers, other
    text does, too.
    """

    def read(symbols: Symbols, maker: CallMaker, begun: str) -> FrameReader:
        ends = [symbols[closer] for closer in closers]

        def body(source: ReplySource, _: str, emit: Emit) -> Reading[None]:
            more = True
            while more:
                found = yield from json_calls(source, symbols, maker, emit)
                yield from source.space()
                following = yield from source.peek()
                more = bool(following) and not (ends and (yield from source.takes(*ends)))
                if not more or not ends or following in "{[":
                    for call in found:
                        emit(call)
                more = more and (bool(ends) or following in "{[")

        return FrameReader(Frame([symbols[opener]], [symbols[opener], *ends], body), symbols, begun)

    return read


def json_calls(source: ReplySource, symbols: Symbols, maker: CallMaker, emit: Emit) -> Reading[Sequence[ToolCall]]:
    """Read an object with name and arguments, or a list of them. Calls of a list are emitted, that of an object is
    returned: it is one if the format's end follows."""

    def item() -> Reading[Sequence[ToolCall]]:
        return maker.calls((yield from JSON.value(source, symbols)))

    yield from source.space()
    if not (yield from source.takes("[")):
        return (yield from item())
    yield from listed(source, item, emit)
    return ()


def listed(source: ReplySource, item: Callable[[], Reading[Sequence[ToolCall]]], emit: Emit) -> Reading[None]:
    """Read a list of calls behind its bracket, up to its end; `item` reads one of its items."""
    yield from source.space()
    end = yield from source.takes("]")
    while not end:
        found = yield from item()
        yield from source.space()
        end = (yield from source.expect(",", "]", what="a comma or the end of the list of calls")).strip(",")
        for call in found:
            emit(call)
        yield from source.space()


def to_json(value: Any) -> str:
    """JSON as chat templates write it."""
    return json.dumps(value, ensure_ascii=False)


def json_object(call: ToolCall, name: str = "name", arguments: str = "arguments") -> str:
    """A call as a JSON object with the keys of a family."""
    return f'{{"{name}": {to_json(call.name)}, "{arguments}": {to_json(dict(call.arguments))}}}'
