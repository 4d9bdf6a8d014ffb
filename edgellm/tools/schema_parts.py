"""The parts of a JSON schema that are schemas, and values of keywords that no schema has."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_IN_ONE = ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then")
_IN_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
_IN_MAP = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_MAX_DEPTH = 64
"""Schemas inside of schemas, as far as values of arguments are read."""


def with_parts(keyword: str, value: Any, change: Callable[[Any], Any]) -> Any:
    """The value of a keyword with each schema in it changed."""
    if keyword in _IN_LIST or (keyword == "items" and isinstance(value, list)):
        return [change(each) for each in value] if isinstance(value, list) else value
    if keyword in _IN_MAP and isinstance(value, Mapping):
        return {name: change(each) for name, each in value.items()}
    return change(value) if keyword in _IN_ONE else value


def faults(schema: Any, place: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The places in a schema that have a value of the wrong type, and what each is not, as words behind the place."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield place, "is no JSON schema"
    elif depth > _MAX_DEPTH:
        yield place, f"is more than {_MAX_DEPTH} levels deep"
    else:
        for keyword, value in schema.items():
            if problem := _problem(keyword, value):
                yield f"{place}.{keyword}", problem
            for name, part in _parts(keyword, value):
                yield from faults(part, f"{place}.{keyword}{name}", depth + 1)


def _parts(keyword: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The schemas in the value of a keyword, and what leads from the keyword to each."""
    if isinstance(value, list) and keyword in (*_IN_LIST, "items"):
        yield from ((f"[{i}]", each) for i, each in enumerate(value))
    elif isinstance(value, Mapping) and keyword in _IN_MAP:
        yield from ((f".{name}", each) for name, each in value.items())
    elif keyword in _IN_ONE:
        yield "", value


def _problem(keyword: str, value: Any) -> str:
    """What the value of a keyword is not; "" if it may be its value."""
    if keyword in _IN_MAP and not isinstance(value, Mapping):
        return "is no object"
    if (keyword in _IN_LIST or keyword == "enum") and not isinstance(value, list):
        return "is no list"
    if keyword in _COUNTS and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        return "is no whole number, at least 0"
    if keyword == "$ref" and not isinstance(value, str):
        return "is no text"
    if keyword == "required" and not _are_texts(value):
        return "is no list of names"
    return "is no type" if keyword == "type" and not isinstance(value, str) and not _are_texts(value) else ""


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
