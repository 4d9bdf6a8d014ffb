"""/v1/completions."""

from dataclasses import dataclass, field
from typing import Any

from edgellm.server.asked import Asked
from edgellm.server.events import Event, ReplyEnd, ReplyPart, ScoredToken
from edgellm.server.failures import RequestError, invalid
from edgellm.server.fields import Fields
from edgellm.server.openai.choices import MAX_REPLIES, asked_choices
from edgellm.server.openai.sampling import checked, response_format, sampling_options
from edgellm.server.work import Prompt, Work

MAX_PROMPTS = 128
MAX_LOGPROBS = 20
DEFAULT_MAX_TOKENS = 16
"""OpenAI's default of `max_tokens`."""


def read_completions(body: Fields) -> Asked:
    """What a body asks for. Raises RequestError and OptionError."""
    return asked_choices(body, _work, "cmpl-", ("text_completion", "text_completion"), TextChoice)


def _work(body: Fields) -> Work:
    model, prompts, options = body.text("model"), _prompts(body), sampling_options(body)
    limit = body.integer("max_tokens", 0)
    options["max_tokens"] = DEFAULT_MAX_TOKENS if limit is None else limit
    if (logprobs := body.integer("logprobs", 0, MAX_LOGPROBS)) is not None:
        options["logprobs"] = logprobs or True
    options |= response_format(body) | {"special": body.flag("special")}
    n = body.integer("n", 1, MAX_REPLIES) or 1
    if body.integer("best_of", 1) not in (None, n):
        raise invalid("best_of", "is not supported, but for the value of n")
    body.only("echo", False)
    body.only("suffix", "")
    body.finish()
    return Work(model, prompts, checked(options), n)


def _prompts(body: Fields) -> list[Prompt]:
    """The prompts: text, token ids, or a list of either. Raises RequestError."""
    if (given := body.text_or_list("prompt", "token ids or of prompts")) is None:
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
class TextChoice:
    """A continuation so far; `length` is that of the text of all tokens with log-probabilities."""

    index: int
    text: str = ""
    scored: list[dict[str, Any]] = field(default_factory=list)
    length: int = 0
    end: ReplyEnd | None = None

    def add(self, event: Event) -> dict[str, Any] | None:
        """Add what comes; returns the entry of a chunk, None if it adds nothing."""
        if isinstance(event, ReplyEnd):
            self.end = event
            return self._entry("", [])
        if not isinstance(event, ReplyPart) or not (event.answer or event.scored):
            return None
        self.text += event.answer
        scored = list(map(self._score, event.scored))
        self.scored += scored
        return self._entry(event.answer, scored)

    def _score(self, token: ScoredToken) -> dict[str, Any]:
        text, offset = token.text.decode(errors="replace"), self.length
        self.length += len(text)
        top = {other.decode(errors="replace"): logprob for other, logprob in token.top}
        return {"tokens": text, "token_logprobs": token.logprob, "top_logprobs": top, "text_offset": offset}

    def _entry(self, text: str, scored: list[dict[str, Any]]) -> dict[str, Any]:
        keys = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
        logprobs = {key: [each[key] for each in scored] for key in keys} if scored else None
        reason = self.end.reason if self.end else None
        return {"index": self.index, "text": text, "logprobs": logprobs, "finish_reason": reason}

    def whole(self) -> dict[str, Any]:
        """The entry of a whole answer."""
        return self._entry(self.text, self.scored)
