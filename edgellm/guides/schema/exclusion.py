"""Which schemas exclude each other, so that a value is valid against one of them at most."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgellm.guides.schema.document import Document, Pointer
from edgellm.guides.schema.keywords import TYPES

Values = frozenset[tuple[str, str]]


@dataclass
class Facts:
    """What is certain of the values that are valid: types, the values themselves, and those of required properties."""

    types: frozenset[str] = frozenset(TYPES)
    values: Values | None = None
    tags: dict[str, Values] = field(default_factory=dict)


def exclude_each_other(one: Facts, other: Facts) -> bool:
    """Whether it is certain that no value is valid against both of two schemas.

    They have other types or other values, or a property that both require has other values.
    """
    types = one.types & other.types
    if not types or (one.values is not None and other.values is not None and not one.values & other.values):
        return True
    if types != {"object"}:
        return False
    return any(not one.tags[name] & other.tags[name] for name in one.tags.keys() & other.tags.keys())


def facts_of(document: Document, pointer: Pointer, with_tags: bool = True) -> Facts:
    """The facts of a schema, without those of its properties unless `with_tags`. Raises GuideError."""
    facts = Facts()
    for place, keywords in document.conjuncts(pointer):
        _add(facts, _own_facts(document, place, keywords, with_tags))
    return facts


def _own_facts(document: Document, pointer: Pointer, keywords: Mapping[str, Any], with_tags: bool) -> Facts:
    named = keywords.get("type", list(TYPES))
    facts = Facts(frozenset([named] if isinstance(named, str) else named), _values(keywords))
    if "number" in facts.types:
        facts.types |= {"integer"}
    if facts.values is not None:
        facts.types &= frozenset(kind for kind, _ in facts.values)
    for name in keywords.get("required", []) if with_tags else ():
        if name in keywords.get("properties", {}):
            inner = facts_of(document, (*pointer, "properties", name), with_tags=False)
            facts.tags |= {} if inner.values is None else {name: inner.values}
    return facts


def _add(facts: Facts, more: Facts) -> None:
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
