"""/v1/chat/completions."""

from dataclasses import dataclass, field
from typing import Any

from edgellm.server.asked import Asked
from edgellm.server.events import Event, ReplyBegun, ReplyEnd, ReplyPart
from edgellm.server.fields import Fields
from edgellm.server.openai.choices import MAX_REPLIES, asked_choices
from edgellm.server.openai.messages import begun_conversation
from edgellm.server.openai.replies import call_entry, logprob_entry
from edgellm.server.openai.sampling import asked_logprobs, checked, response_format, sampling_options
from edgellm.server.openai.tools import tool_options
from edgellm.server.work import Work

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


def read_chat(body: Fields) -> Asked:
    """What a body asks for. Raises RequestError and OptionError."""
    return asked_choices(body, _work, "chatcmpl-", ("chat.completion", "chat.completion.chunk"), ChatChoice)


def _work(body: Fields) -> Work:
    model, (messages, begun), options = body.text("model"), begun_conversation(body), sampling_options(body)
    options |= {
        "max_tokens": _limit(body),
        "logprobs": asked_logprobs(body, body.flag("logprobs"), "logprobs to be true"),
        **response_format(body),
        **tool_options(body),
    }
    options["template_args"] = body.mapping("chat_template_kwargs")
    effort, n = body.word("reasoning_effort", *EFFORTS), body.integer("n", 1, MAX_REPLIES) or 1
    body.only("modalities", ["text"])
    body.ignore("verbosity", "prediction")
    body.finish()
    return Work(model, [messages], checked(options), n, effort, begun=begun)


def _limit(body: Fields) -> int | None:
    limits = body.integer("max_completion_tokens", 1), body.integer("max_tokens", 1)
    return limits[1] if limits[0] is None else limits[0]


@dataclass
class ChatChoice:
    """A reply so far; `end` is None before its end."""

    index: int
    thought: str = ""
    answer: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    scored: list[dict[str, Any]] = field(default_factory=list)
    end: ReplyEnd | None = None

    def add(self, event: Event) -> dict[str, Any] | None:
        """Add what comes; returns the entry of a chunk, None if it adds nothing."""
        if isinstance(event, ReplyBegun):
            return self._entry("delta", {"role": "assistant", "content": ""}, [])
        if isinstance(event, ReplyEnd):
            self.end = event
            return self._entry("delta", {}, [])
        scored = list(map(logprob_entry, event.scored))
        self.scored += scored
        delta = self._grow(event)
        return self._entry("delta", delta, scored) if delta else None

    def _grow(self, part: ReplyPart) -> dict[str, Any]:
        """Add a part; returns the `delta` of a chunk."""
        delta: dict[str, Any] = {}
        self.thought, self.answer = self.thought + part.thought, self.answer + part.answer
        if part.thought:
            delta["reasoning_content"] = part.thought
        if part.answer or part.scored:
            delta["content"] = part.answer
        if part.calls:
            first, entries = len(self.calls), list(map(call_entry, part.calls))
            delta["tool_calls"] = [{"index": first + number, **entry} for number, entry in enumerate(entries)]
            self.calls += entries
        return delta

    def _entry(self, name: str, message: dict[str, Any], scored: list[dict[str, Any]]) -> dict[str, Any]:
        logprobs = {"content": scored, "refusal": None} if scored else None
        reason = self.end.reason if self.end else None
        return {"index": self.index, name: message, "logprobs": logprobs, "finish_reason": reason}

    def whole(self) -> dict[str, Any]:
        """The entry of a whole answer."""
        content = self.answer or (None if self.calls else "")
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if self.thought:
            message["reasoning_content"] = self.thought
        if self.calls:
            message["tool_calls"] = self.calls
        return self._entry("message", message, self.scored)
