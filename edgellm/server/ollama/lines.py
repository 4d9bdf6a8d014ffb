"""The lines of answers to /api/chat and /api/generate."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from edgellm.server.asked import OneReply
from edgellm.server.events import Event, ReplyEnd, ReplyPart, ScoredToken
from edgellm.tools.calls import ToolCall

Shape = Callable[[str, str, list[dict[str, Any]]], dict[str, Any]]
"""From an answer, a thought and calls to what a line has of them."""

_NANOSECONDS = 1e9


def chat_shape(answer: str, thought: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """A message."""
    message: dict[str, Any] = {"role": "assistant", "content": answer}
    if thought:
        message["thinking"] = thought
    if calls:
        message["tool_calls"] = calls
    return {"message": message}


def generate_shape(answer: str, thought: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """A response."""
    return {"response": answer, **({"thinking": thought} if thought else {})}


class LineMaker(OneReply):
    """Makes the lines of one answer, and the object of a whole one."""

    def __init__(self, model: str, shape: Shape, keep_alive: float | None) -> None:
        self._model, self._shape, self._began = model, shape, monotonic()
        self._done_without_reply = "unload" if keep_alive == 0 else "load"
        self._answer, self._thought = "", ""
        self._calls = list[dict[str, Any]]()
        self._scored = list[dict[str, Any]]()

    def parts(self, event: Event) -> Iterator[dict[str, Any]]:
        """Add what comes; yields its line, if it has one."""
        if isinstance(event, ReplyEnd):
            self._end = event
            yield self._line(self._shape("", "", [])) | self._last(event)
        elif isinstance(event, ReplyPart) and (event.answer or event.thought or event.calls or event.scored):
            yield self._grown(event)

    def _grown(self, event: ReplyPart) -> dict[str, Any]:
        calls, scored = list(map(_call, event.calls)), list(map(_scored, event.scored))
        self._answer, self._thought = self._answer + event.answer, self._thought + event.thought
        self._calls += calls
        self._scored += scored
        line = self._line(self._shape(event.answer, event.thought, calls)) | {"done": False}
        return line | ({"logprobs": scored} if scored else {})

    def whole(self) -> dict[str, Any]:
        """The whole answer."""
        found = self._line(self._shape(self._answer, self._thought, self._calls))
        found |= {"logprobs": self._scored} if self._scored else {}
        return found | (self._last(self._end) if self._end else {"done": True, "done_reason": self._done_without_reply})

    def _line(self, found: dict[str, Any]) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return {"model": self._model, "created_at": now, **found}

    def _last(self, end: ReplyEnd) -> dict[str, Any]:
        stats, total = end.stats, monotonic() - self._began
        prefill = stats.ttft_s or 0.0
        decode = (stats.generated_tokens - 1) / stats.decode_tps if stats.decode_tps else 0.0
        return {
            "done": True,
            "done_reason": "length" if end.reason == "length" else "stop",
            "total_duration": round(total * _NANOSECONDS),
            "load_duration": round(max(0.0, total - prefill - decode) * _NANOSECONDS),
            "prompt_eval_count": stats.prompt_tokens,
            "prompt_eval_duration": round(prefill * _NANOSECONDS),
            "eval_count": stats.generated_tokens,
            "eval_duration": round(decode * _NANOSECONDS),
        }


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "function": {"name": call.name, "arguments": dict(call.arguments)}}


def _scored(token: ScoredToken) -> dict[str, Any]:
    return {**_token(token.text, token.logprob), "top_logprobs": [_token(*each) for each in token.top]}


def _token(text: bytes, logprob: float) -> dict[str, Any]:
    return {"token": text.decode(errors="replace"), "logprob": logprob, "bytes": list(text)}
