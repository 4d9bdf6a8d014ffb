"""/v1/completions."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from edgellm.server.events import Event, ReplyEnd, ReplyPart, ScoredToken
from edgellm.server.exchange import Exchange
from edgellm.server.failures import RequestError, invalid
from edgellm.server.fields import Fields
from edgellm.server.openai.asked import DONE, Asked, answer_asked
from edgellm.server.openai.chat import MAX_REPLIES, stream_usage
from edgellm.server.openai.replies import Stamp, usage
from edgellm.server.openai.sampling import checked, response_format, sampling_options
from edgellm.server.work import Prompt, Work

MAX_PROMPTS = 128
MAX_LOGPROBS = 20
DEFAULT_MAX_TOKENS = 16
"""OpenAI's default of `max_tokens`."""


async def completions(exchange: Exchange, body: Fields) -> None:
    """Answer a request."""
    await answer_asked(exchange, read_completions(body), DONE)


def read_completions(body: Fields) -> Asked:
    """What a body asks for. Raises RequestError and OptionError."""
    streams, with_usage = body.flag("stream"), stream_usage(body)
    work = _work(body)
    return Asked(work, lambda model, stamp: _Completions(model, stamp, work.n, with_usage), streams)


def _work(body: Fields) -> Work:
    model, prompts, options = body.text("model"), _prompts(body), sampling_options(body)
    limit = body.integer("max_tokens", 0)
    options["max_tokens"] = DEFAULT_MAX_TOKENS if limit is None else limit
    if (logprobs := body.integer("logprobs", 0, MAX_LOGPROBS)) is not None:
        options["logprobs"] = logprobs or True
    options |= response_format(body) | {"special": body.flag("special")}
    n = body.integer("n", 1, MAX_REPLIES) or 1
    body.only("best_of", n)
    body.only("echo", False)
    body.only("suffix", "")
    body.finish()
    return Work(model, prompts, checked(options), n)


def _prompts(body: Fields) -> list[Prompt]:
    """The prompts: text, token ids, or a list of either. Raises RequestError."""
    given = body.get("prompt")
    if given is None:
        raise RequestError(400, "prompt is missing", "prompt", "missing_required_parameter")
    several = given if isinstance(given, list) and not _are_ids(given) else [given]
    if not 1 <= len(several) <= MAX_PROMPTS:
        raise invalid("prompt", f"must have 1 to {MAX_PROMPTS} prompts")
    if not all(isinstance(each, str) or (isinstance(each, list) and _are_ids(each)) for each in several):
        raise invalid("prompt", "must be text, a list of token ids, or a list of either")
    return several


def _are_ids(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(each, int) and not isinstance(each, bool) for each in value)


@dataclass
class _Text:
    """A continuation so far; `length` is that of the text of all tokens with log-probabilities."""

    text: str = ""
    scored: list[dict[str, Any]] = field(default_factory=list)
    length: int = 0
    end: ReplyEnd | None = None


class _Completions:
    """An answer with its continuations."""

    def __init__(self, model: str, stamp: Stamp, n: int, with_usage: bool) -> None:
        """`with_usage`: a stream ends with the usage."""
        self._n, self._usage = n, {"usage": None} if with_usage else {}
        self._head = {"id": stamp.new_id("cmpl-"), "object": "text_completion"}
        self._head |= {"created": int(stamp.created), "model": model}
        self._texts: dict[int, _Text] = {}

    @property
    def ends(self) -> list[ReplyEnd]:
        """The ends of the continuations so far."""
        return [text.end for text in self._texts.values() if text.end]

    def parts(self, event: Event) -> Iterator[dict[str, Any]]:
        """Add what comes; yields a chunk, unless it adds nothing."""
        if (choice := self._add(event)) is not None:
            yield self._head | {"choices": [choice]} | self._usage

    def last_parts(self) -> Iterator[dict[str, Any]]:
        """The chunk with the usage."""
        if self._usage:
            yield self._head | {"choices": [], "usage": usage(self.ends, self._n)}

    def _add(self, event: Event) -> dict[str, Any] | None:
        """Add what comes; returns the choice of a chunk, None if it adds nothing."""
        found = self._texts.setdefault(event.choice, _Text())
        if isinstance(event, ReplyEnd):
            found.end = event
            return _text_choice(event.choice, "", [], event.reason)
        if not isinstance(event, ReplyPart) or not (event.answer or event.scored):
            return None
        found.text += event.answer
        scored = [_scored(found, token) for token in event.scored]
        found.scored += scored
        return _text_choice(event.choice, event.answer, scored, None)

    def whole(self) -> dict[str, Any]:
        """The whole answer."""
        ended = [(index, text, text.end) for index, text in sorted(self._texts.items())]
        choices = [_text_choice(i, text.text, text.scored, end.reason if end else "stop") for i, text, end in ended]
        return self._head | {"choices": choices, "usage": usage(self.ends, self._n)}


def _scored(found: _Text, token: ScoredToken) -> dict[str, Any]:
    text, offset = token.text.decode(errors="replace"), found.length
    found.length += len(text)
    top = {other.decode(errors="replace"): logprob for other, logprob in token.top}
    return {"tokens": text, "token_logprobs": token.logprob, "top_logprobs": top, "text_offset": offset}


def _text_choice(index: int, text: str, scored: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    keys = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    logprobs = {key: [each[key] for each in scored] for key in keys} if scored else None
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
