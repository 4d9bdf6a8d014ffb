"""What an event adds to a reply: its fields are checked here, and nothing else of an answer is used."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.fmt import printable
from edgellm.remote.failures import ServerError, error_text
from edgellm.text.utf8 import replace_surrogates

_MAX_COUNT = 1 << 48
_REASONS = {
    "stop": "eog",
    "end_turn": "eog",
    "eos": "eog",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


@dataclass(frozen=True)
class CallPiece:
    """A piece of a call: `index` tells the calls of a reply apart, None where the server gives none."""

    index: int | None
    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class TokenUsage:
    """The tokens of a request, as the server counts them; `cached` of those of the prompt. It computed `drafted` tokens
    before they were certain, of which the reply has those `accepted`.
    """

    prompt: int
    generated: int
    cached: int
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True)
class AnswerPart:
    """A part of an answer. `reason` is a finish reason of edgellm, or `content_filter`; None before the end."""

    thought: str = ""
    text: str = ""
    calls: tuple[CallPiece, ...] = ()
    reason: str | None = None
    usage: TokenUsage | None = None


def answer_part(data: str, host: str) -> AnswerPart:
    """The part that an event, or a whole answer, has. Raises ServerError for an error, and for what is no such part."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise ServerError(f"{host} sends what is not JSON: {printable(data, 100)}; the reply ends here") from None
    if not isinstance(found, Mapping):
        raise ServerError(f"{host} sends no part of a reply: {printable(data, 100)}; the reply ends here")
    if found.get("error"):
        raise ServerError(f"{host} fails in the middle of the reply: {error_text(found) or 'it does not say why'}")
    choice = _first_choice(found.get("choices"))
    said = _mapping(choice.get("delta")) or _mapping(choice.get("message"))
    return AnswerPart(
        thought=_text(said, "reasoning_content") or _text(said, "reasoning"),
        text=_text(said, "content") or _text(said, "refusal") or _text(choice, "text"),
        calls=tuple(_call_pieces(said.get("tool_calls"))),
        reason=_reason(choice),
        usage=_usage(found),
    )


def _first_choice(choices: Any) -> Mapping[str, Any]:
    """The choice with index 0; one reply is asked for."""
    found = (_mapping(choice) for choice in (choices if isinstance(choices, list) else ()))
    return next((choice for choice in found if choice.get("index") in (0, None)), {})


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    return replace_surrogates(value) if isinstance(value, str) else ""


def _reason(choice: Mapping[str, Any]) -> str | None:
    """The finish reason; servers that say at which stop string a reply ended have that in `stop_reason`."""
    if not isinstance(given := choice.get("finish_reason"), str):
        return None
    reason = _REASONS.get(given, "eog")
    return "stop" if reason == "eog" and isinstance(choice.get("stop_reason"), str) else reason


def _call_pieces(calls: Any) -> Iterator[CallPiece]:
    for call in map(_mapping, calls if isinstance(calls, list) else ()):
        function, index = _mapping(call.get("function")), call.get("index")
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping):
            arguments = json.dumps(arguments)
        yield CallPiece(
            index if isinstance(index, int) and not isinstance(index, bool) else None,
            _text(call, "id"),
            _text(function, "name"),
            replace_surrogates(arguments) if isinstance(arguments, str) else "",
        )


def _usage(found: Mapping[str, Any]) -> TokenUsage | None:
    usage = _mapping(found.get("usage"))
    prompt, generated = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if prompt is None or generated is None:
        return None
    details = _count(_mapping(usage.get("prompt_tokens_details")), "cached_tokens")
    named = details, _count(usage, "prompt_cache_hit_tokens"), _count(_mapping(found.get("timings")), "cache_n")
    drafts = _mapping(usage.get("completion_tokens_details"))
    accepted, rejected = (_count(drafts, f"{each}_prediction_tokens") or 0 for each in ("accepted", "rejected"))
    return TokenUsage(prompt, generated, min(prompt, next(filter(None, named), 0)), accepted + rejected, accepted)


def _count(found: Mapping[str, Any], name: str) -> int | None:
    value = found.get(name)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_COUNT
    return value if is_count else None
