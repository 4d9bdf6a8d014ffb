"""How large the values in a chat template may get. What is refused raises Jinja2's TemplateError."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.utils import Namespace

LARGEST = 1 << 25  # characters, an item counting as 64: several times what the longest context holds
_ITEM = 64
AMPLIFYING = frozenset(
    [
        "batch",
        "center",
        "expandtabs",
        "format",
        "format_map",
        "indent",
        "join",
        "ljust",
        "pprint",
        "replace",
        "rjust",
        "round",
        "slice",
        "strftime_now",
        "string",
        "tojson",
        "translate",
        "urlize",
        "wordwrap",
        "xmlattr",
        "zfill",
    ]
)
_FORMATTING = frozenset(["format", "format_map", "strftime_now"])


def measure(value: object) -> int:
    """How large a value is: its characters, and 64 for each item, counted as often as it occurs."""
    total, rest = 0, [value]
    while rest and total <= LARGEST:
        item = rest.pop()
        total += len(item) if isinstance(item, str | bytes) else _ITEM
        if isinstance(item, Namespace):
            item = item._Namespace__attrs
        if isinstance(item, Mapping):
            rest += [*item.keys(), *item.values()]
        elif isinstance(item, Collection) and not isinstance(item, str | bytes):
            rest += item
    return total


def bounded(value: Any) -> Any:
    """`value`, unless it is too large."""
    limit(measure(value), LARGEST, "builds too large a value")
    return value


def check_growth(name: str, *values: object) -> None:
    """Refuse what may make text as long as the product of all sizes; the numbers in a format are widths."""
    product = 1
    for value in values:
        sized = isinstance(value, str | bytes | Collection | Namespace)
        product *= max(abs(value) if isinstance(value, int) else measure(value) if sized else 1, 1)
        limit(product, LARGEST, "builds too large a value")
    if name in _FORMATTING and values:
        widest = max(map(len, re.findall("[0-9]+", str(values[0]))), default=0)
        limit(widest, 4, "formats text too wide")


def collected(items: Iterator[object]) -> list[object]:
    """All of `items`, while they stay bounded together."""
    total, kept = 0, []
    for item in items:
        total += measure(item)
        limit(total, LARGEST, "builds too large a value")
        kept.append(item)
    return kept


def limit(value: float, most: float, problem: str) -> None:
    """Refuse to go on when `value` is above `most`."""
    if value > most:
        refuse(f"it {problem}")


def refuse(message: object) -> NoReturn:
    """Raise TemplateError; templates call it, too, as `raise_exception`."""
    raise TemplateError(str(message))
