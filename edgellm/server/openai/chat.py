"""/v1/chat/completions."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from edgellm.server.events import Event, ReplyBegun, ReplyEnd, ReplyPart
from edgellm.server.exchange import Exchange
from edgellm.server.failures import invalid
from edgellm.server.fields import Fields
from edgellm.server.openai.asked import DONE, Asked, answer_asked
from edgellm.server.openai.messages import conversation
from edgellm.server.openai.replies import Stamp, call_entry, logprob_entry, usage
from edgellm.server.openai.sampling import checked, response_format, sampling_options
from edgellm.server.openai.tools import tool_options
from edgellm.server.work import Work

MAX_REPLIES = 128
"""The most replies to one prompt."""

MAX_TOP_LOGPROBS = 20
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


async def chat_completions(exchange: Exchange, body: Fields) -> None:
    """Answer a request."""
    await answer_asked(exchange, read_chat(body), DONE)


def read_chat(body: Fields) -> Asked:
    """What a body asks for. Raises RequestError and OptionError."""
    streams, with_usage = body.flag("stream"), stream_usage(body)
    work = _work(body)
    return Asked(work, lambda model, stamp: _Answer(model, stamp, work.n, with_usage), streams)


def stream_usage(body: Fields) -> bool:
    """Whether a stream ends with the usage."""
    if (options := body.inner("stream_options")) is None:
        return False
    asked = options.flag("include_usage")
    options.ignore("include_obfuscation")
    options.finish()
    return asked


def _work(body: Fields) -> Work:
    model, messages, options = body.text("model"), conversation(body), sampling_options(body)
    options |= {"max_tokens": _limit(body), "logprobs": _logprobs(body), **response_format(body), **tool_options(body)}
    options["template_args"] = body.mapping("chat_template_kwargs")
    effort, n = body.word("reasoning_effort", *EFFORTS), body.integer("n", 1, MAX_REPLIES) or 1
    body.only("store", False)
    body.only("modalities", ["text"])
    body.ignore("verbosity", "prediction")
    body.finish()
    return Work(model, [messages], checked(options), n, effort)


def _limit(body: Fields) -> int | None:
    limits = body.integer("max_completion_tokens", 1), body.integer("max_tokens", 1)
    return limits[1] if limits[0] is None else limits[0]


def _logprobs(body: Fields) -> bool | int:
    asked, top = body.flag("logprobs"), body.integer("top_logprobs", 0, MAX_TOP_LOGPROBS)
    if top is not None and not asked:
        raise invalid("top_logprobs", "needs logprobs to be true")
    return top or asked


@dataclass
class _ChatReply:
    """A reply so far; `end` is None before its end."""

    thought: str = ""
    answer: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    scored: list[dict[str, Any]] | None = None
    end: ReplyEnd | None = None


class _Answer:
    """An answer with its replies."""

    def __init__(self, model: str, stamp: Stamp, n: int, with_usage: bool) -> None:
        """`with_usage`: a stream ends with the usage."""
        self._model, self._n, self._with_usage = model, n, with_usage
        self._id, self._created = stamp.new_id("chatcmpl-"), int(stamp.created)
        self._replies: dict[int, _ChatReply] = {}

    @property
    def ends(self) -> list[ReplyEnd]:
        """The ends of the replies so far."""
        return [reply.end for reply in self._replies.values() if reply.end]

    def parts(self, event: Event) -> Iterator[dict[str, Any]]:
        """Add what comes; yields a chunk, unless it adds nothing."""
        if (delta := self._add(event)) is not None:
            yield self._chunk(event.choice, delta, event)

    def last_parts(self) -> Iterator[dict[str, Any]]:
        """The chunk with the usage."""
        if self._with_usage:
            yield self._head("chat.completion.chunk") | {"choices": [], "usage": usage(self.ends, self._n)}

    def _add(self, event: Event) -> dict[str, Any] | None:
        """Add what comes; returns the `delta` of a chunk, None if it adds nothing."""
        reply = self._replies.setdefault(event.choice, _ChatReply())
        if isinstance(event, ReplyBegun):
            return {"role": "assistant", "content": ""}
        if isinstance(event, ReplyEnd):
            reply.end = event
            return {}
        return _added(reply, event)

    def _head(self, kind: str) -> dict[str, Any]:
        """What all objects of the answer have."""
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _chunk(self, choice: int, delta: dict[str, Any], event: Event) -> dict[str, Any]:
        """A chunk of a stream."""
        reason = event.reason if isinstance(event, ReplyEnd) else None
        found = {"index": choice, "delta": delta, "logprobs": None, "finish_reason": reason}
        if isinstance(event, ReplyPart) and event.scored:
            found["logprobs"] = {"content": list(map(logprob_entry, event.scored)), "refusal": None}
        return (
            self._head("chat.completion.chunk") | {"choices": [found]} | ({"usage": None} if self._with_usage else {})
        )

    def whole(self) -> dict[str, Any]:
        """The whole answer."""
        choices = [_choice(index, reply) for index, reply in sorted(self._replies.items())]
        return self._head("chat.completion") | {"choices": choices, "usage": usage(self.ends, self._n)}


def _added(reply: _ChatReply, part: ReplyPart) -> dict[str, Any] | None:
    delta: dict[str, Any] = {}
    reply.thought, reply.answer = reply.thought + part.thought, reply.answer + part.answer
    if part.thought:
        delta["reasoning_content"] = part.thought
    if part.answer or part.scored:
        delta["content"] = part.answer
    if part.calls:
        first, entries = len(reply.calls), list(map(call_entry, part.calls))
        delta["tool_calls"] = [{"index": first + number, **entry} for number, entry in enumerate(entries)]
        reply.calls += entries
    if part.scored:
        reply.scored = [*(reply.scored or ()), *map(logprob_entry, part.scored)]
    return delta or None


def _choice(index: int, reply: _ChatReply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.answer or (None if reply.calls else "")}
    message["refusal"] = None
    if reply.thought:
        message["reasoning_content"] = reply.thought
    if reply.calls:
        message["tool_calls"] = reply.calls
    logprobs = None if reply.scored is None else {"content": reply.scored, "refusal": None}
    reason = reply.end.reason if reply.end else "stop"
    return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason}
