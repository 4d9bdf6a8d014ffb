"""Parts of answers that several routes of OpenAI's API have: calls, log-probabilities and usage."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from secrets import token_hex
from time import time
from typing import Any

from edgellm.server.events import ReplyEnd, ScoredToken
from edgellm.tools.calls import ToolCall


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


def arguments_text(call: ToolCall) -> str:
    """The arguments of a call as JSON."""
    return json.dumps(dict(call.arguments), ensure_ascii=False)


def call_entry(call: ToolCall) -> dict[str, Any]:
    """A call as an entry of `tool_calls`."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments_text(call)}}


def logprob_entry(token: ScoredToken) -> dict[str, Any]:
    """A token as an entry of `logprobs.content`."""
    top = [_token_entry(text, logprob) for text, logprob in token.top]
    return {**_token_entry(token.text, token.logprob), "top_logprobs": top}


def _token_entry(text: bytes, logprob: float) -> dict[str, Any]:
    return {"token": text.decode(errors="replace"), "logprob": logprob, "bytes": list(text)}


def usage(ends: Iterable[ReplyEnd], n: int = 1) -> dict[str, Any]:
    """The tokens of a request: prompts once, of `n` replies to each, and all replies."""
    found = list(ends)
    prompts = [end.stats for end in found if end.choice % n == 0]
    prompt, generated = sum(s.prompt_tokens for s in prompts), sum(end.stats.generated_tokens for end in found)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
        "prompt_tokens_details": {"cached_tokens": sum(s.cached_tokens for s in prompts)},
        "completion_tokens_details": {"reasoning_tokens": sum(end.thought_tokens for end in found)},
    }
