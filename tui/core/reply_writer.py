"""Writes replies with the open model, in the worker's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from edgellm.errors import EdgeLLMError
from tui.core.activity import Phase
from tui.core.autosave import Autosave
from tui.core.error_text import error_line
from tui.core.events import Notice, ReplyEnded
from tui.core.past_stats import stats_record

if TYPE_CHECKING:
    from tui.core.backend import OpenModel, ReplyStream
    from tui.core.events import Emit
    from tui.core.reply_request import ReplyRequest


class _Latest(NamedTuple):
    """The reply that was begun last. `stream` is None until the prompt is made, and again after its model closes."""

    message: int
    stream: ReplyStream | None = None
    ended: ReplyEnded | None = None


class ReplyWriter:
    """Writes one reply after the other. `phase` is None between replies."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._latest: _Latest | None = None  # replaced as a whole: other threads read it
        self._cancelled: set[int] = set()
        self.phase: Phase | None = None

    @property
    def stream(self) -> ReplyStream | None:
        """The stream of the reply that was begun last, while its model is open."""
        return self._latest and self._latest.stream

    @property
    def running(self) -> int | None:
        """The id of the reply that is being written."""
        latest = self._latest
        return latest.message if latest and not latest.ended else None

    def written(self, message: int) -> ReplyStream | ReplyEnded | None:
        """The text of a reply so far, or its end; None unless it is the reply begun last."""
        latest = self._latest
        return (latest.ended or latest.stream) if latest and latest.message == message else None

    def is_cancelled(self, message: int) -> bool:
        """Whether a reply was cancelled before its end."""
        return message in self._cancelled

    def cancel(self, message: int, model: OpenModel | None) -> None:
        """End a reply at once, or do not begin it; from any thread."""
        self._cancelled.add(message)
        latest = self._latest
        if latest and latest.message == message and not latest.ended and (running := latest.stream or model):
            running.cancel()

    def drop_stream(self) -> None:
        """Forget the stream of the last reply, as its model is closed."""
        if self._latest:
            self._latest = self._latest._replace(stream=None)

    def write(self, request: ReplyRequest, model: OpenModel | None) -> None:
        """Write a reply to its end, save it, and emit ReplyEnded."""
        self._latest = _Latest(request.message)
        try:
            ended = self._write(request, model)
        except Exception as error:
            ended = self._failed(request, model, error)
        self.phase = None
        self._latest = self._latest._replace(ended=ended)
        self._cancelled.discard(request.message)
        try:
            request.end(ended)
        except Exception as error:
            self._emit(Notice(f"this reply is not saved: {error_line(error)}", "error"))
        self._emit(ended)

    def _write(self, request: ReplyRequest, model: OpenModel | None) -> ReplyEnded:
        if self.is_cancelled(request.message):
            return ReplyEnded(request.message, request.begun, "cancelled")
        if not model:
            raise EdgeLLMError("no model is open: choose one with /model")
        self.phase = Phase.PREFILL
        stream = model.reply(request.messages, request.options, request.begun)
        self._latest = _Latest(request.message, stream)
        # `cancel` adds to the set first and then looks for a stream, so that no cancellation is lost.
        if self.is_cancelled(request.message):
            stream.cancel()
        with Autosave(stream, lambda text: request.save(request.message, text)):
            for _ in stream:
                self.phase = Phase.DECODE
        return ReplyEnded(
            request.message,
            _whole_text(stream),
            stream.finish_reason or "cancelled",
            stats_record(stream.stats, stream.live(), model.ctx),
            stream.dropped_tokens,
            stream.dropped_messages,
            _full_context(model, stream, request.options.get("overflow")) or _broken_call(stream),
            tuple(stream.tool_calls),
        )

    def _failed(self, request: ReplyRequest, model: OpenModel | None, error: Exception) -> ReplyEnded:
        """The end of a reply that raised. A cancellation while the prompt is made raises, too, and is no error."""
        stream = self.stream
        if not stream and self.is_cancelled(request.message):
            return ReplyEnded(request.message, request.begun, "cancelled")
        if not stream:
            return ReplyEnded(request.message, request.begun, "error", problem=error_line(error))
        stats = stats_record(stream.stats, stream.live(), model.ctx if model else 0)
        calls = tuple(stream.tool_calls)
        return ReplyEnded(
            request.message, _whole_text(stream), "error", stats, problem=error_line(error), tool_calls=calls
        )


def _whole_text(stream: ReplyStream) -> str:
    """The text with the calls that do not parse, so that nothing of the reply is lost."""
    return stream.text + "".join(broken.text for broken in stream.broken_calls)


def _broken_call(stream: ReplyStream) -> str | None:
    """A line about the calls that do not parse; a reply that the user stopped may end inside of one."""
    if stream.finish_reason in (None, "cancelled"):
        return None
    problems = (f"the call at the end of this reply does not parse: {broken.problem}" for broken in stream.broken_calls)
    return next(problems, None)


def _full_context(model: OpenModel, stream: ReplyStream, overflow: object) -> str | None:
    """A line for a reply that ended because the context was full, and not at `max_tokens`."""
    held = stream.stats.prompt_tokens + stream.stats.generated_tokens - 1  # the last token is never computed with
    if not model.ctx or stream.finish_reason != "length" or overflow == "window" or held < model.ctx:
        return None
    return f"the context of {model.ctx:,} tokens is full; /set overflow window lets replies go on"
