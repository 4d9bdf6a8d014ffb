"""Which schemas exclude each other, so that a value is valid against one of them at most."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgellm.guides.schema.document import Document, Pointer
from edgellm.guides.schema.keywords import TYPES

Values = frozenset[tuple[str, str]]


@dataclass
class _Facts:
    """What is certain of the values that are valid: types, the values themselves, and those of required properties."""

    types: frozenset[str] = frozenset(TYPES)
    values: Values | None = None
    tags: dict[str, Values] = field(default_factory=dict)


def exclude_each_other(document: Document, one: Pointer, other: Pointer) -> bool:
    """Whether it is certain that no value is valid against both schemas.

    They have other types or other values, or a property that both require has other values.
    """
    a, b = _facts(document, one), _facts(document, other)
    if not a.types & b.types or (a.values is not None and b.values is not None and not a.values & b.values):
        return True
    if a.types & b.types != {"object"}:
        return False
    return any(not a.tags[name] & b.tags[name] for name in a.tags.keys() & b.tags.keys())


def _facts(document: Document, pointer: Pointer, above: tuple[Pointer, ...] = (), with_tags: bool = True) -> _Facts:
    facts, keywords = _Facts(), document.at(pointer)
    if isinstance(keywords, bool) or pointer in above:
        return facts
    named = keywords.get("type", list(TYPES))
    facts.types = frozenset([named] if isinstance(named, str) else named)
    if "number" in facts.types:
        facts.types |= {"integer"}
    facts.values = _values(keywords)
    if facts.values is not None:
        facts.types &= frozenset(kind for kind, _ in facts.values)
    for name in keywords.get("required", []) if with_tags else ():
        if name in keywords.get("properties", {}):
            inner = _facts(document, (*pointer, "properties", name), with_tags=False)
            facts.tags |= {} if inner.values is None else {name: inner.values}
    for place in conjuncts(document, pointer, keywords):
        _add(facts, _facts(document, place, (*above, pointer), with_tags))
    return facts


def conjuncts(document: Document, pointer: Pointer, keywords: Mapping[str, Any]) -> list[Pointer]:
    """The subschemas that a value must be valid against, too."""
    places = [(*pointer, "allOf", str(i)) for i in range(len(keywords.get("allOf", [])))]
    return [*places, document.target(pointer, keywords["$ref"])] if "$ref" in keywords else places


def _add(facts: _Facts, more: _Facts) -> None:
    facts.types &= more.types
    if more.values is not None:
        facts.values = more.values if facts.values is None else facts.values & more.values
    for name, values in more.tags.items():
        facts.tags[name] = facts.tags.get(name, values) & values


def _values(keywords: Mapping[str, Any]) -> Values | None:
    """The values of `const` and `enum`, each with its type; None without them, or if one is an array or object."""
    listed = [keywords["const"]] if "const" in keywords else keywords.get("enum")
    if not isinstance(listed, list) or any(isinstance(value, list | dict) for value in listed):
        return None
    return frozenset(_typed(value) for value in listed)


def _typed(value: Any) -> tuple[str, str]:
    if value is None or isinstance(value, bool):
        return ("null" if value is None else "boolean"), str(value)
    return ("string", value) if isinstance(value, str) else ("integer", str(float(value)))
