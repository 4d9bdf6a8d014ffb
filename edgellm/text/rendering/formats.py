"""The origins of the results of `%`, `str.format` and `tojson`.

Python itself formats the text. It is then formatted again piece by piece, each piece with its origin; if that gives a
different text, as with a width given as an argument, the origin is UNKNOWN.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from string import Formatter
from typing import Any

from edgellm.text.rendering.tracked_text import COMPUTED, TrackedText, as_tracked, common_origin, with_origins_of

_PERCENT = re.compile(r"%(?:\((?P<key>[^()]*)\))?[#0\- +]*[0-9]*(?:\.[0-9]*)?[hlL]?(?P<kind>[a-zA-Z%])")
_BRACES = re.compile(r"(?P<brace>\{\{|\}\})|\{(?P<field>[^{}]*)\}")


def percent(layout: TrackedText, values: Any) -> TrackedText:
    """`layout % values`."""
    text = str.__mod__(layout, values)
    return _attempt(text, lambda: _percent_pieces(layout, values))


def braces(
    layout: TrackedText, text: str, formatter: Formatter, args: Sequence[Any], names: Mapping[str, Any]
) -> TrackedText:
    """`text`, the result of a formatter for `layout`, with origins."""
    return _attempt(text, lambda: _brace_pieces(layout, formatter, args, names))


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> TrackedText:
    """JSON as Hugging Face writes it; Jinja2's own `tojson` escapes HTML."""
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    if sort_keys:
        return TrackedText(text)
    return _attempt(text, lambda: _json_pieces(text, value, ensure_ascii))


def _attempt(text: str, pieces: Callable[[], Iterator[TrackedText]]) -> TrackedText:
    try:
        return with_origins_of(text, pieces())
    except (LookupError, TypeError, ValueError):
        return TrackedText(text)


def _percent_pieces(layout: TrackedText, values: Any) -> Iterator[TrackedText]:
    at, rest = 0, iter(values if isinstance(values, tuple) else (values,))
    for found in _PERCENT.finditer(layout):
        yield layout[at : found.start()]
        at = found.end()
        if found["kind"] == "%":
            yield layout[at - 1 : at]
            continue
        value = next(rest, None) if found["key"] is None else values[found["key"]]
        spec = re.sub(r"^%\(.*?\)", "%", found[0])
        yield as_tracked(value) if spec == "%s" else TrackedText(spec % (value,), common_origin(value))
    yield layout[at:]


def _brace_pieces(
    layout: TrackedText, formatter: Formatter, args: Sequence[Any], names: Mapping[str, Any]
) -> Iterator[TrackedText]:
    at, counted = 0, 0
    for found in _BRACES.finditer(layout):
        yield layout[at : found.start()]
        at = found.end()
        if found["brace"]:
            yield layout[at - 1 : at]
            continue
        name, mark, spec = re.split("([!:]|$)", found["field"], maxsplit=1)
        if not name or name[0] in ".[":
            name, counted = f"{counted}{name}", counted + 1
        value, _ = formatter.get_field(name, args, names)
        whole = "{" + name + mark + spec + "}"
        yield TrackedText(formatter.vformat(whole, args, names), common_origin(value)) if mark else as_tracked(value)
    yield layout[at:]


def _json_pieces(text: str, value: Any, ensure_ascii: bool) -> Iterator[TrackedText]:
    at = 0
    for leaf in _leaves(value):
        written = json.dumps(leaf, ensure_ascii=ensure_ascii)
        start = text.index(written, at) + 1  # the texts of the JSON are the leaves, in order
        yield TrackedText(text[at:start], COMPUTED)
        at = start + len(written) - 2
        inside = written[1:-1]
        yield leaf if isinstance(leaf, TrackedText) and inside == leaf else TrackedText(inside, common_origin(leaf))
    yield TrackedText(text[at:], COMPUTED)


def _leaves(value: Any) -> Iterator[str]:
    """All texts in a value, in the order of its JSON. Raises TypeError for a key that is not text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError
            yield key
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)


setattr(TrackedText, "__mod__", percent)  # noqa: B010 (mypy takes no assignment to a method)
setattr(TrackedText, "__rmod__", lambda self, layout: percent(TrackedText(layout), self))  # noqa: B010
