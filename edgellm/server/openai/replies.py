"""Parts of answers that several routes of OpenAI's API have: calls, log-probabilities and usage."""

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from edgellm.server.events import ReplyEnd, ScoredToken
from edgellm.tools.calls import ToolCall


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
    """The tokens of a request: of prompts once, however many of the `n` replies to each, and of all replies.

    One reply to a prompt computes it, and the others find it cached: the least of their figures counts. Drafts have the
    names of predicted outputs; those that were rejected are no tokens of the replies.
    """
    found = sorted(ends, key=lambda end: end.choice)
    stats = [[end.stats for end in same] for _, same in groupby(found, lambda end: end.choice // n)]
    prompt, generated = sum(s[0].prompt_tokens for s in stats), sum(end.stats.generated_tokens for end in found)
    cached = sum(min(each.cached_tokens for each in s) for s in stats)
    accepted, drafted = sum(end.stats.accepted for end in found), sum(end.stats.drafted for end in found)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {
            "reasoning_tokens": sum(end.thought_tokens for end in found),
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": drafted - accepted,
        },
    }
