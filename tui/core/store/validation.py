"""Validation of stored and imported conversations, before any value is used.

A check takes a value from JSON or SQLite. It returns the value, or raises InvalidError with the place of the error.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, get_args

from edgellm.options.checks import integer, number
from edgellm.speculation.sources import Source
from edgellm.text.conversation import arguments_of
from edgellm.tools.calls import ToolCall
from tui.core.tree import Message

Check = Callable[[Any], Any]


class InvalidError(ValueError):
    """A value is invalid; the message names it."""


def instance_of(kind: type, name: str) -> Check:
    """A check of the type, which `name` names in errors."""
    return lambda value: value if isinstance(value, kind) else _refuse(f"must be {name}")


def optional(check: Check) -> Check:
    """A check that also accepts None."""
    return lambda value: None if value is None else check(value)


def one_of(values: Collection[str]) -> Check:
    """A check for one of these texts."""
    why = f"must be one of {', '.join(values)}"
    return lambda value: value if isinstance(value, str) and value in values else _refuse(why)


def list_of(check: Check) -> Check:
    """A check for a list whose items pass a check."""

    def run(value: Any) -> list[Any]:
        items = instance_of(list, "a list")(value)
        return [_at(f"{place}: ", check, item) for place, item in enumerate(items, 1)]

    return run


def object_with(optionals: Collection[str] = (), **checks: Check) -> Check:
    """A check for an object with these fields. Other fields are removed; those in `optionals` may be missing."""

    def run(value: Any) -> dict[str, Any]:
        found = instance_of(dict, "an object")(value)
        if missing := [name for name in checks if name not in found and name not in optionals]:
            _refuse(f"has no {missing[0]}")
        return {name: _at(f"{name} ", check, found[name]) for name, check in checks.items() if name in found}

    return run


def _at(place: str, check: Check, value: Any) -> Any:
    try:
        return check(value)
    except InvalidError as error:
        raise InvalidError(f"{place}{error}") from None
    except ValueError as error:  # of edgellm.options.checks
        raise InvalidError(f"{place}must be {error}") from None


def _refuse(why: str) -> Any:
    raise InvalidError(why)


TEXT = instance_of(str, "text")
COUNT = integer(0, 2**53)
FIGURE = optional(number(0))

_SOURCES = get_args(Source)
_DRAFTS = object_with(drafted=COUNT, accepted=COUNT, seconds=number(0))
_STATS: dict[str, Check] = {
    "prompt_tokens": COUNT,
    "cached_tokens": COUNT,
    "generated_tokens": COUNT,
    "queued_s": FIGURE,
    "ttft_s": FIGURE,
    "prefill_tps": FIGURE,
    "decode_tps": FIGURE,
    "itl_ms": optional(object_with(p50=FIGURE, p95=FIGURE)),
    "mbu": FIGURE,
    "devices": list_of(object_with(name=TEXT, blocks=COUNT, bytes=COUNT)),
    "guided": optional(object_with(tokens=COUNT, mean=number(0, 1), worst=number(0, 1), worst_at=COUNT)),
    "estimated": instance_of(bool, "true or false"),
    "drafted": COUNT,
    "accepted": COUNT,
    "tokens_per_step": FIGURE,
    "drafts": object_with(_SOURCES, **dict.fromkeys(_SOURCES, _DRAFTS)),
    "context_used": COUNT,
    "ctx": COUNT,
}
STATS = object_with(_STATS, **_STATS)
"""The figures of a reply. All are optional, as they are only shown."""

ROLES = ("system", "user", "assistant", "tool")
REASONS = ("eog", "stop", "length", "tool_calls", "cancelled", "error")
_CALL = object_with(
    ("id",),
    id=optional(TEXT),
    function=object_with(("arguments",), name=TEXT, arguments=lambda value: value),
)


def _call(value: Any) -> dict[str, Any]:
    """A check for a call in the form of OpenAI's API, whose arguments are an object, or text with one."""
    call: dict[str, Any] = _CALL(value)
    return _refuse("has arguments that are no JSON object") if arguments_of(call) is None else call


CALLS = list_of(_call)
"""The calls of a message."""

_OF_CALLS = ("tool_calls", "name", "tool_call_id")
_MESSAGE = object_with(
    _OF_CALLS,
    id=COUNT,
    parent=optional(COUNT),
    role=one_of(ROLES),
    text=TEXT,
    created=number(0),
    model=optional(TEXT),
    finish_reason=optional(one_of(REASONS)),
    stats=optional(STATS),
    dropped_tokens=COUNT,
    dropped_messages=COUNT,
    tool_calls=optional(CALLS),
    name=optional(TEXT),
    tool_call_id=optional(TEXT),
)


_PAIR = list_of(TEXT)


def files(value: Any) -> tuple[tuple[str, str], ...]:
    """Check a list of pairs of a name and a text."""
    pairs = list_of(_PAIR)(value)
    if any(len(pair) != 2 for pair in pairs):
        _refuse("must be pairs of a name and a text")
    return tuple((name, text) for name, text in pairs)


def tool_calls(entries: Iterable[dict[str, Any]]) -> tuple[ToolCall, ...]:
    """The calls that CALLS has checked."""
    return tuple(ToolCall(each.get("id") or "", each["function"]["name"], arguments_of(each) or {}) for each in entries)


def message(value: Any) -> Message:
    """Check the fields of a message."""
    found = _MESSAGE(value)
    return Message(**found | {"tool_calls": tool_calls(found.get("tool_calls") or ())})


def messages(value: Any) -> list[Message]:
    """Check a list of messages. Each comes after its parent, so that there is no cycle; no id appears twice."""
    found: dict[int, Message] = {}
    for place, one in enumerate(list_of(message)(value), 1):
        if one.id in found:
            _refuse(f"{place}: id {one.id} appears twice")
        if one.parent is not None and one.parent not in found:
            _refuse(f"{place}: parent {one.parent} is not among those before it")
        found[one.id] = one
    return list(found.values())
