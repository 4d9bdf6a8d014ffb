"""A subschema, read and checked: what it says of each type of value."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from edgellm.guides.patterns import ecma
from edgellm.guides.patterns.nodes import Node
from edgellm.guides.schema.document import Document, Pointer, fail
from edgellm.guides.schema.formats import FORMATS, INTEGER_FORMATS
from edgellm.guides.schema.keywords import TYPES
from edgellm.guides.schema.numbers import Numbers

Conjunction = tuple[Pointer, ...]
"""Subschemas that a value must be valid against, all of them; a value against none is any value."""


@dataclass(frozen=True)
class Strings:
    """Strings with a number of characters, in which all patterns are found; these are without anchors."""

    least: int = 0
    most: int | None = None
    patterns: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Arrays:
    """Arrays: the schemas of the first items and of all others, and how many items there are."""

    prefix: tuple[Conjunction, ...] = ()
    rest: Conjunction = ()
    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class PropertyRules:
    """What one subschema says of properties: by name, by patterns of names, and of all others."""

    named: Mapping[str, Conjunction]
    patterns: tuple[tuple[Node, Conjunction], ...]
    rest: Conjunction


@dataclass(frozen=True)
class Objects:
    """Objects: rules that all hold, the names of required properties, and how many properties there are."""

    rules: tuple[PropertyRules, ...] = ()
    required: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Part:
    """A subschema. `literals` are the only values, None for any; `all_of` further subschemas that must hold.

    `any_of` are lists of subschemas of which one must hold; of those in `one_of` exactly one.
    """

    types: frozenset[str]
    literals: tuple[Any, ...] | None
    numbers: Numbers
    strings: Strings
    arrays: Arrays
    objects: Objects
    all_of: Conjunction
    any_of: tuple[Conjunction, ...]
    one_of: tuple[Conjunction, ...]


def read_part(document: Document, pointer: Pointer) -> Part:
    """Read the subschema at a place. Raises GuideError."""
    return _PartReader(document, pointer).part()


class _PartReader:
    def __init__(self, document: Document, pointer: Pointer) -> None:
        self._document, self._pointer, self._keywords = document, pointer, document.at(pointer)

    def part(self) -> Part:
        all_of = self._schemas("allOf", least=1)
        if "$ref" in self._keywords:
            all_of += (self._document.target(self._pointer, self._keywords["$ref"]),)
        return Part(
            types=self._types(),
            literals=self._literals(),
            numbers=self._numbers(),
            strings=self._strings(),
            arrays=self._arrays(),
            objects=self._objects(),
            all_of=all_of,
            any_of=tuple(filter(None, [self._schemas("anyOf", least=1)])),
            one_of=tuple(filter(None, [self._schemas("oneOf", least=1)])),
        )

    def _place(self, *keys: object) -> Pointer:
        return (*self._pointer, *map(str, keys))

    def _get(self, keyword: str, kind: type | tuple[type, ...], wanted: str, default: Any = None) -> Any:
        value = self._keywords.get(keyword, default)
        if keyword in self._keywords and (
            not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
        ):
            fail(self._place(keyword), f"has a wrong value: give {wanted}")
        return value

    def _count(self, keyword: str) -> int | None:
        value: int | Decimal | None = self._get(keyword, (int, Decimal), "a whole number, at least 0")
        if value is not None and (value < 0 or value != int(value)):
            fail(self._place(keyword), "has a wrong value: give a whole number, at least 0")
        return None if value is None else int(value)

    def _number(self, keyword: str) -> int | Decimal | None:
        value: int | Decimal | None = self._get(keyword, (int, Decimal), "a number")
        return value

    def _schemas(self, keyword: str, least: int = 0) -> Conjunction:
        schemas = self._get(keyword, list, "a list of schemas", [])
        if keyword in self._keywords and len(schemas) < least:
            fail(self._place(keyword), "is empty: give a list of schemas")
        return tuple(self._place(keyword, i) for i in range(len(schemas)))

    def _texts(self, keyword: str) -> tuple[str, ...]:
        texts = self._get(keyword, list, "a list of texts", [])
        if not all(isinstance(text, str) for text in texts):
            fail(self._place(keyword), "has a wrong value: give a list of texts")
        return tuple(dict.fromkeys(texts))

    def _types(self) -> frozenset[str]:
        named = self._get("type", (str, list), "a type or a list of types", list(TYPES))
        types = [named] if isinstance(named, str) else named
        if not all(isinstance(each, str) and each in TYPES for each in types):
            fail(self._place("type"), f"is not one of the types, which are {', '.join(TYPES)}")
        return frozenset(types)

    def _literals(self) -> tuple[Any, ...] | None:
        listed = tuple(self._get("enum", list, "a list of values", [])) if "enum" in self._keywords else None
        if "const" not in self._keywords:
            return listed
        value = self._keywords["const"]
        return (value,) if listed is None else tuple(each for each in listed if same(each, value))

    def _numbers(self) -> Numbers:
        low, above = self._number("minimum"), self._number("exclusiveMinimum")
        high, below = self._number("maximum"), self._number("exclusiveMaximum")
        step = self._number("multipleOf")
        if step is not None and step <= 0:
            fail(self._place("multipleOf"), "has a wrong value: give a number above 0")
        numbers = Numbers(low, high, step=Fraction(step or 0)) & Numbers(above, below, low_open=True, high_open=True)
        least, most = INTEGER_FORMATS.get(self._keywords.get("format", ""), (None, None))
        return numbers & Numbers(least, most)

    def _strings(self) -> Strings:
        patterns = (
            [self._parsed(self._place("pattern"), text)] if (text := self._get("pattern", str, "a regex")) else []
        )
        name = self._get("format", str, "the name of a format", "")
        if name and name not in FORMATS and name not in INTEGER_FORMATS:
            known = ", ".join(FORMATS)
            fail(self._place("format"), f"is a format that no guide can hold a reply to; there are {known}")
        patterns += [self._parsed(self._place("format"), each) for each in FORMATS.get(name, ())]
        return Strings(self._count("minLength") or 0, self._count("maxLength"), tuple(patterns))

    def _parsed(self, place: Pointer, text: str) -> Node:
        try:
            return ecma.whole(text)
        except ecma.PatternError as error:
            fail(place, str(error))

    def _arrays(self) -> Arrays:
        items = self._keywords.get("items")
        if isinstance(items, list):
            prefix, rest = self._schemas("items"), "additionalItems"
        else:
            prefix, rest = self._schemas("prefixItems"), "items"
            if "additionalItems" in self._keywords:
                fail(self._place("additionalItems"), "says nothing, as items is no list; leave it out")
        most = self._count("maxItems")
        if self._get("uniqueItems", bool, "true or false", False) and (most is None or most > 1):
            fail(self._place("uniqueItems"), "is a keyword that no guide can hold a reply to; leave it out")
        own = (self._place(rest),) if rest in self._keywords else ()
        return Arrays(tuple((each,) for each in prefix), own, self._count("minItems") or 0, most)

    def _objects(self) -> Objects:
        named = {name: (self._place("properties", name),) for name in self._mapping("properties")}
        patterns = tuple(
            (self._parsed(self._place("patternProperties", each), each), (self._place("patternProperties", each),))
            for each in self._mapping("patternProperties")
        )
        rest = (self._place("additionalProperties"),) if "additionalProperties" in self._keywords else ()
        rules = (PropertyRules(named, patterns, rest),) if named or patterns or rest else ()
        least, most = self._count("minProperties") or 0, self._count("maxProperties")
        return Objects(rules, self._texts("required"), least, most)

    def _mapping(self, keyword: str) -> Iterator[str]:
        yield from self._get(keyword, dict, "an object of schemas", {})


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)
