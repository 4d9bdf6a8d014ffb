"""A reply as blocks one after the other, thoughts, texts and calls: what `/v1/responses` and `/v1/messages` stream."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from edgellm.server.events import ReplyPart, ScoredToken
from edgellm.tools.calls import ToolCall


class BlockKind(Enum):
    """What a block is."""

    THOUGHT = 0
    TEXT = 1
    CALL = 2


class Change(Enum):
    """What happens to a block."""

    OPENED = 0
    GROWN = 1
    CLOSED = 2


@dataclass
class ReplyBlock:
    """A block so far. `text` of a call are its arguments as JSON. `scored` are tokens with log-probabilities."""

    index: int
    kind: BlockKind
    call: ToolCall | None = None
    text: str = ""
    scored: list[ScoredToken] = field(default_factory=list)


class Step(NamedTuple):
    """A change of a block. `added` is the text by which it has grown, and `scored` the tokens."""

    change: Change
    block: ReplyBlock
    added: str = ""
    scored: tuple[ScoredToken, ...] = ()


class ReplyBlocks:
    """The blocks of one reply."""

    def __init__(self) -> None:
        self.all: list[ReplyBlock] = []
        self._is_open = False

    def add(self, part: ReplyPart) -> Iterator[Step]:
        """Add what comes; yields what happens to blocks."""
        yield from self._text(BlockKind.THOUGHT, part.thought)
        yield from self._text(BlockKind.TEXT, part.answer, part.scored)
        for call in part.calls:
            yield from self.close()
            yield self._open(BlockKind.CALL, call)
            yield self._grow(json.dumps(dict(call.arguments), ensure_ascii=False))
            yield from self.close()

    def close(self) -> Iterator[Step]:
        """Close the block that is open."""
        if self._is_open:
            self._is_open = False
            yield Step(Change.CLOSED, self.all[-1])

    def _text(self, kind: BlockKind, text: str, scored: tuple[ScoredToken, ...] = ()) -> Iterator[Step]:
        if not (text or scored):
            return
        if not (self._is_open and self.all[-1].kind is kind):
            yield from self.close()
            yield self._open(kind)
        yield self._grow(text, scored)

    def _open(self, kind: BlockKind, call: ToolCall | None = None) -> Step:
        self.all.append(ReplyBlock(len(self.all), kind, call))
        self._is_open = True
        return Step(Change.OPENED, self.all[-1])

    def _grow(self, text: str, scored: tuple[ScoredToken, ...] = ()) -> Step:
        self.all[-1].text += text
        self.all[-1].scored += scored
        return Step(Change.GROWN, self.all[-1], text, scored)
