"""The origins of what `%`, `str.format` and `tojson` make.

Python itself makes the text. Here it is made once more piece by piece, each with its origin; where that gives another
text, as with widths given as arguments, the origin is UNKNOWN.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from string import Formatter
from typing import Any

from edgellm.text.rendering.origins import COMPUTED, Text, attached, blend, text_of

_PERCENT = re.compile(r"%(?:\((?P<key>[^()]*)\))?[#0\- +]*[0-9]*(?:\.[0-9]*)?[hlL]?(?P<kind>[a-zA-Z%])")
_BRACES = re.compile(r"(?P<brace>\{\{|\}\})|\{(?P<field>[^{}]*)\}")


def percent(layout: Text, values: Any) -> Text:
    """`layout % values`."""
    text = str.__mod__(layout, values)
    return _attempt(text, lambda: _percent_pieces(layout, values))


def braces(layout: Text, text: str, formatter: Formatter, args: Sequence[Any], names: Mapping[str, Any]) -> Text:
    """`text`, which is what a formatter made of `layout`."""
    return _attempt(text, lambda: _brace_pieces(layout, formatter, args, names))


def tojson(value: Any, **options: Any) -> Text:
    """JSON as Hugging Face writes it; Jinja2's own escapes HTML."""
    options = {"ensure_ascii": False} | options
    text = json.dumps(value, **options)
    if options.get("sort_keys"):
        return Text(text)
    ensure_ascii = options["ensure_ascii"]
    return _attempt(text, lambda: _json_pieces(text, value, ensure_ascii))


def _attempt(text: str, pieces: Callable[[], Iterator[Text]]) -> Text:
    try:
        return attached(text, pieces())
    except (LookupError, TypeError, ValueError):
        return Text(text)


def _percent_pieces(layout: Text, values: Any) -> Iterator[Text]:
    at, rest = 0, iter(values if isinstance(values, tuple) else (values,))
    for found in _PERCENT.finditer(layout):
        yield layout[at : found.start()]
        at = found.end()
        if found["kind"] == "%":
            yield layout[at - 1 : at]
            continue
        value = next(rest, None) if found["key"] is None else values[found["key"]]
        spec = re.sub(r"^%\(.*?\)", "%", found[0])
        yield text_of(value) if spec == "%s" else Text(spec % (value,), blend(value))
    yield layout[at:]


def _brace_pieces(layout: Text, formatter: Formatter, args: Sequence[Any], names: Mapping[str, Any]) -> Iterator[Text]:
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
        yield Text(formatter.vformat(whole, args, names), blend(value)) if mark else text_of(value)
    yield layout[at:]


def _json_pieces(text: str, value: Any, ensure_ascii: bool) -> Iterator[Text]:
    at = 0
    for leaf in _leaves(value):
        written = json.dumps(leaf, ensure_ascii=ensure_ascii)
        start = text.index(written, at) + 1  # the next text in the JSON is the next leaf
        yield Text(text[at:start], COMPUTED)
        at = start + len(written) - 2
        inside = written[1:-1]
        yield leaf if isinstance(leaf, Text) and inside == leaf else Text(inside, blend(leaf))
    yield Text(text[at:], COMPUTED)


def _leaves(value: Any) -> Iterator[str]:
    """All texts in a value, in the order of its JSON. Raises TypeError for a key that is none."""
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


setattr(Text, "__mod__", percent)  # noqa: B010 (mypy takes no assignment to a method)
setattr(Text, "__rmod__", lambda self, layout: percent(Text(layout), self))  # noqa: B010
