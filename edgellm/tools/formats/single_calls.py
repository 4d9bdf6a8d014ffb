"""What formats have in common in which each call stands between marks of its own."""

from collections.abc import Callable

from edgellm.tools.calls import ToolCall
from edgellm.tools.maker import CallMaker
from edgellm.tools.reader import Emit, Frame, FrameReader
from edgellm.tools.source import Reading, ReplySource
from edgellm.tools.symbols import Symbols

ReadCall = Callable[[ReplySource, Symbols, CallMaker], Reading[ToolCall]]
"""Reads a call behind its opening mark, with its closing mark."""


def single_frames(opener: str, closer: str, read_call: ReadCall) -> Callable[[Symbols, CallMaker, str], FrameReader]:
    """Makes readers of calls that each stand between the marks `opener` and `closer`."""

    def read(symbols: Symbols, maker: CallMaker, begun: str) -> FrameReader:
        def body(source: ReplySource, _: str, emit: Emit) -> Reading[None]:
            emit((yield from read_call(source, symbols, maker)))

        return FrameReader(Frame([symbols[opener]], [symbols[opener], symbols[closer]], body), symbols, begun)

    return read
