"""A request, read: the work that it asks for, and what makes its answer."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from time import time
from typing import Any, Protocol

from edgellm.server.events import Event, ReplyEnd
from edgellm.server.work import Work

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"


@dataclass(frozen=True)
class Stamp:
    """What tells an answer from others: `created`, in seconds since 1970, and identifiers.

    `digits` gives the hexadecimal digits of an identifier: random ones, unless an answer must be the same every time.
    """

    created: float = field(default_factory=time)
    digits: Callable[[], str] = lambda: token_hex(12)

    def new_id(self, prefix: str) -> str:
        """An identifier that no other answer has."""
        return f"{prefix}{self.digits()}"


class AnswerMaker(Protocol):
    """Makes the objects of one answer. `ends` are the ends of its replies so far."""

    @property
    def ends(self) -> Sequence[ReplyEnd]:
        """The ends of the replies so far."""

    def parts(self, event: Event) -> Iterable[dict[str, Any]]:
        """Add what comes; yields the parts of a stream. A server-sent event is named by the `type` of its part."""

    def last_parts(self) -> Iterable[dict[str, Any]]:
        """The parts behind all replies."""

    def whole(self) -> dict[str, Any]:
        """The whole answer."""


class OneReply:
    """What makers of answers with one reply have in common: its end."""

    _end: ReplyEnd | None = None

    @property
    def ends(self) -> Sequence[ReplyEnd]:
        """The end of the reply, if it is there."""
        return [self._end] if self._end else []

    def last_parts(self) -> Iterable[dict[str, Any]]:
        """Nothing."""
        return ()


@dataclass(frozen=True)
class Asked:
    """What a body asks for. `make` makes the answer for the name of a model.

    `streams`: as a stream of `media_type` that `last` ends.
    """

    work: Work
    make: Callable[[str, Stamp], AnswerMaker]
    streams: bool
    media_type: str = EVENTS
    last: bytes = b""
