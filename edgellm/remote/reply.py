"""A reply that a server writes: the iterator that a caller reads pieces from and cancels."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from edgellm.errors import IncompleteOutputError
from edgellm.fmt import counted
from edgellm.generate.stats import Live, Stats
from edgellm.remote.calls import CallAssembler
from edgellm.remote.failures import ServerError
from edgellm.remote.figures import ReplyFigures
from edgellm.remote.parts import AnswerPart
from edgellm.remote.requests import RequestOptions
from edgellm.remote.text import ReplyText
from edgellm.system.http import RequestConnection

if TYPE_CHECKING:
    from edgellm.generate.results import Completion
    from edgellm.tools.calls import BrokenCall, ToolCall

Send = Callable[[RequestConnection], AbstractContextManager[Iterator[AnswerPart]]]
"""Sends a request on a connection; the parts of its answer come as they arrive."""


@dataclass(frozen=True, slots=True)
class ReplyPiece:
    """A piece of a reply. It has what `edgellm.generate.results.Token` has; servers tell no ids of tokens."""

    text: str
    finish_reason: str | None
    thinking: bool
    tool_calls: "tuple[ToolCall, ...]"
    _figures: ReplyFigures = field(repr=False)
    _count: int | None = field(repr=False)
    id: None = None
    logprob: None = None
    top_logprobs: tuple[()] = ()

    @property
    def stats(self) -> Stats:
        """The figures up to this piece."""
        return self._figures.stats(self._count)


class RemoteReply:
    """A reply that is being written: iterate over its pieces, `cancel()` it from any thread.

    It has what the chat and the command line need of `edgellm.generate.generation.Generation`. The request is sent when
    the first piece is asked for. `first_call` is the number of calls in the conversation before.
    """

    dropped_tokens = 0
    dropped_messages = 0

    def __init__(self, send: Send, host: str, options: RequestOptions, first_call: int = 0) -> None:
        self.finish_reason: str | None = None
        self.tool_calls: tuple[ToolCall, ...] = ()
        self.broken_calls: tuple[BrokenCall, ...] = ()
        self.tokens: list[int] = []
        self._host, self._options = host, options
        self._text, self._calls = ReplyText(host), CallAssembler(host, first_call)
        self._figures, self._connection = ReplyFigures(), RequestConnection()
        self._pieces = self._read(send)

    @property
    def text(self) -> str:
        """The text so far."""
        return str(self._text)

    @property
    def stats(self) -> Stats:
        """The figures so far."""
        return self._figures.stats()

    def live(self) -> Live:
        """What the reply does at this moment; from any thread."""
        return self._figures.live()

    def cancel(self) -> None:
        """End the request at once: the connection is shut down. Any thread may call it."""
        self._connection.shut_down()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReplyPiece:
        return next(self._pieces)

    def _read(self, send: Send) -> Iterator[ReplyPiece]:
        """All pieces. Raises ServerError, also for a reply that is not in its form, and IncompleteOutputError."""
        reason: str | None = None
        try:
            with send(self._connection) as parts:
                for part in parts:
                    if self._connection.is_shut_down:
                        break
                    reason = part.reason or reason
                    yield from self._add(part)
        except ServerError:
            if not self._connection.is_shut_down:
                raise
        finally:
            self._figures.end()
        yield from self._end(reason)
        self._check(reason)

    def _add(self, part: AnswerPart) -> Iterator[ReplyPiece]:
        """Take a part; yields a piece if it has text or a piece of a call, and two where a thought ends."""
        if part.usage:
            self._figures.usage(part.usage)
        for piece in part.calls:
            self._calls.add(piece)
        if part.thought or part.text or part.calls:
            count = self._figures.piece()
            thought = self._text.think(part.thought) + (self._text.end_thought() if part.text else "")
            if thought or not part.text:
                yield self._piece(thought, count)
            if part.text:
                yield self._piece(self._text.say(part.text), count)

    def _piece(self, text: str, count: int | None = None) -> ReplyPiece:
        """A piece; in a reply that is held to a form all is a thought that comes before its answer."""
        thinking = self._options.generation.form is not None and self._text.answer_start is None
        return ReplyPiece(text, self.finish_reason, thinking, self.tool_calls, self._figures, count)

    def _end(self, reason: str | None) -> Iterator[ReplyPiece]:
        """Set the finish reason; yields a last piece with the calls."""
        self.tool_calls, self.broken_calls = self._calls.calls()
        cancelled = self._connection.is_shut_down
        if reason in (None, "eog", "stop") and self.tool_calls:
            reason = "tool_calls"
        elif reason == "tool_calls" and not self.tool_calls:
            reason = "eog"
        self.finish_reason = "cancelled" if cancelled else (reason or "eog")
        grown = "" if cancelled or reason == "length" else self._text.end_thought()
        if self.finish_reason != "cancelled":
            yield self._piece(grown)

    def _check(self, reason: str | None) -> None:
        """Raises an error for a reply that was filtered, and for one that is not in the form that it is held to."""
        if self.finish_reason == "content_filter":
            raise ServerError(f"the content filter of {self._host} ended this reply")
        if self._options.spec is None or self._options.generation.partial or self.finish_reason == "cancelled":
            return
        if self.finish_reason == "length":
            problem = f"the server cut off the reply after {counted(self.stats.generated_tokens, 'token')}"
            advice = "allow it more tokens ({max_tokens}), or take it as it is ({partial})"
            raise IncompleteOutputError(f"{problem}, before it conforms", advice, self._completion(None))
        if not self._conforms():
            raise ServerError(f"{self._host} did not hold the reply to option {self._options.spec.kind}: try another")

    def _conforms(self) -> bool:
        """Whether the answer is in its form: a server may not know the field that asks for it."""
        from edgellm.guides.compile import accepts  # these import numpy and llguidance
        from edgellm.guides.schema.json_check import conforms
        from edgellm.guides.schema.json_equality import json_of

        spec, answer = self._options.spec, self.answer or ""
        assert spec is not None
        if spec.kind != "json_schema":
            return accepts(spec, answer)
        try:
            return conforms(json_of(answer), json.loads(spec.source))
        except ValueError:
            return False

    @property
    def answer(self) -> str | None:
        """The text of a reply that is held to a form, without what the model thinks; None for a free reply."""
        if self._options.generation.form is None:
            return None
        start = self._text.answer_start
        return "" if start is None else self.text[start:]

    def completion(self) -> "Completion":
        """Read all remaining pieces; returns the whole text and its figures. Raises the errors of iterating."""
        for _ in self:
            pass
        is_value = self._options.generation.json_schema is not None and self.finish_reason in ("eog", "stop")
        return self._completion(json.loads(self.answer or "null") if is_value else None)

    def _completion(self, parsed: Any) -> "Completion":
        from edgellm.generate.results import Completion  # imports numpy

        reason, calls = self.finish_reason or "cancelled", (self.tool_calls, self.broken_calls)
        return Completion(self.text, [], reason, self.stats, 0, None, self.answer, parsed, *calls)
