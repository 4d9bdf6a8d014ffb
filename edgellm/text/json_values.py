"""Values that JSON can represent, and keywords of JSON Schema that describe them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.text.utf8 import replace_surrogates

ANNOTATIONS = frozenset(
    (
        *("$schema", "$id", "id", "$anchor", "$comment", "$defs", "definitions", "$vocabulary", "title", "description"),
        *("default", "example", "examples", "deprecated", "readOnly", "writeOnly", "discriminator"),
        *("contentEncoding", "contentMediaType", "contentSchema"),
    )
)
"""Keywords of JSON Schema that say nothing about which values are valid."""


def is_annotation(keyword: str) -> bool:
    """Whether a keyword of JSON Schema says nothing about which values are valid, as those that begin with x-."""
    return keyword in ANNOTATIONS or keyword.startswith("x-")


def type_name(value: Any) -> str:
    """The type of a value in JSON Schema; "integer" for a number without a fraction."""
    names: Sequence[tuple[type, str]] = [(bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")]
    known = [*names, (Mapping, "object"), (list, "array")]
    return next((name for kind, name in known if isinstance(value, kind)), "null")


def json_value(value: Any, name: str) -> Any:
    """A copy of `value` for JSON. Raises OptionError, with the option's name, for a value that JSON does not have."""
    try:
        return _json_value(value)
    except _UnfitError as error:
        problem = f"has a value of type {printable(str(error))}; give text, numbers, lists and dicts with text as keys"
    except RecursionError:
        problem = "has values too deep inside each other"
    raise OptionError(f"{name} {problem}")


def parsed_json(text: str, origin: str, advice: str) -> Any:
    """The value of a JSON document. Raises OptionError that names `origin` for text that is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{origin} is not JSON: {printable(str(error), 200)}; {advice}") from None


class _UnfitError(Exception):
    """A value that JSON cannot represent."""


def _json_value(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and value.bit_length() < 1024:
        return value
    if isinstance(value, Mapping):
        return {_key(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    raise _UnfitError(type(value).__name__)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return replace_surrogates(key)
    raise _UnfitError(f"{type(key).__name__} as key")
