"""One subschema as llguidance gets it."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import combinations
from typing import Any, Protocol

from edgellm.guides.patterns.charset import CharSet
from edgellm.guides.patterns.ecma import PatternError, whole
from edgellm.guides.patterns.text import rust
from edgellm.guides.schema import formats
from edgellm.guides.schema.document import Document, Pointer, fail, shown
from edgellm.guides.schema.exclusion import exclude_each_other, facts_of
from edgellm.guides.schema.keywords import BOUNDS, OF_OBJECTS, TYPES
from edgellm.guides.schema.limits import bounds, check_number, check_step, plain

_UNWRITTEN = CharSet.of((0, 31), (127, 127)) - CharSet.from_text("\n\r\t\b\f")
"""Characters that replies do not contain: JSON has no short escape for them."""

_MAX_ONE_OF = 1000  # each is compared with each
# llguidance takes minutes for more.
_MAX_NAME_PATTERNS = 100
_MAX_TEXT_PATTERNS = 10

Schema = dict[str, Any] | bool


class Preparer(Protocol):
    """What prepares other subschemas; see `edgellm.guides.schema.prepare`.

    `alone`: no other subschema says which properties the value has.
    """

    document: Document

    def at(self, pointer: Pointer, alone: bool) -> Schema:
        """The subschema at a place, for llguidance."""

    def reference(self, target: Pointer, alone: bool) -> str:
        """The reference to a place."""


class Subschema:
    """A subschema at a place of a document, with its keywords."""

    def __init__(self, preparer: Preparer, pointer: Pointer, keywords: Mapping[str, Any], alone: bool) -> None:
        self._preparer, self._pointer, self._keywords = preparer, pointer, keywords
        self._alone = alone and _count_of_speakers(keywords) <= 1
        self._besides: list[Schema] = []  # schemas that must hold besides

    def prepared(self) -> dict[str, Any]:
        """The subschema for llguidance, with the keywords in their order. Raises GuideError."""
        made = dict[str, Any]()
        for keyword, value in self._keywords.items():
            made |= _REWRITTEN[keyword](self, value) if keyword in _REWRITTEN else {keyword: value}
        made |= bounds(self._pointer, self._keywords, self._is_integer())
        if self._alone and _names_all(self._keywords):
            made["additionalProperties"] = False
        return {**made, "allOf": [*made.get("allOf", []), *self._besides]} if self._besides else made

    def _place(self, *keys: object) -> Pointer:
        return (*self._pointer, *map(str, keys))

    def _types(self) -> list[Any]:
        named = self._keywords.get("type", [])
        return named if isinstance(named, list) else [named]

    def _is_integer(self) -> bool:
        return "integer" in self._types() and "number" not in self._types()

    def _type(self, value: Any) -> dict[str, Any]:
        if any(each not in TYPES for each in self._types()):
            fail(self._place("type"), f"is not one of the types, which are {', '.join(TYPES)}")
        return {"type": value}

    def _reference(self, value: str) -> dict[str, Any]:
        target = self._preparer.document.target(self._pointer, value)
        self._check_end(target)
        return {"$ref": self._preparer.reference(target, self._alone)}

    def _check_end(self, target: Pointer) -> None:
        """Raise GuideError if a reference leads back to its own subschema within one value: none could be written."""
        if any(place == self._pointer for place, _ in self._preparer.document.conjuncts(target)):
            fail(self._place("$ref"), "leads back to itself; let it name another part of the schema")

    def _const(self, value: Any) -> dict[str, Any]:
        self._check_literal(self._place("const"), value)
        return {"const": plain(value)}

    def _enum(self, values: list[Any]) -> dict[str, Any]:
        if not values:
            fail(self._place("enum"), "is empty: give a list of values")
        for i, value in enumerate(values):
            self._check_literal(self._place("enum", i), value)
        return {"enum": plain(values)}

    def _check_literal(self, place: Pointer, value: Any) -> None:
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            check_number(place, value)
        self._check_text(place, value if isinstance(value, str) else "")
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            self._check_text(place, str(key))
            self._check_literal((*place, str(key)), item)

    def _check_text(self, place: Pointer, text: str) -> None:
        if any(ord(character) in _UNWRITTEN for character in text):
            fail(place, "has a control character that replies do not contain; leave it out")

    def _multiple(self, value: int | Decimal) -> dict[str, Any]:
        check_step(self._place("multipleOf"), value)
        return {"multipleOf": plain(value)}

    def _pattern(self, value: str) -> dict[str, Any]:
        return {"pattern": self._rust(self._place("pattern"), value)}

    def _check_count_of_patterns(self) -> None:
        """Raise GuideError if too many patterns must match one text."""
        found = self._preparer.document.conjuncts(self._pointer)
        if sum(not {"pattern", "format"}.isdisjoint(keywords) for _, keywords in found) > _MAX_TEXT_PATTERNS:
            fail(self._pointer, f"has more than {_MAX_TEXT_PATTERNS} patterns for one text; join them")

    def _rust(self, place: Pointer, pattern: str) -> str:
        """A pattern in the dialect that llguidance reads.

        Without characters that replies do not contain: where a class has all of these, it would also allow quotes.
        """
        try:
            return f"^(?:{rust(whole(pattern), _UNWRITTEN)})$"
        except PatternError as error:
            fail(place, str(error))

    def _format(self, value: str) -> dict[str, Any]:
        if value in formats.OF_LLGUIDANCE:
            return {"format": value}
        if value in formats.PATTERNS:
            self._besides.append({"pattern": self._rust(self._place("format"), formats.PATTERNS[value])})
        elif value in formats.INTEGERS:
            low, high = formats.INTEGERS[value]
            self._besides.append({"minimum": low, "maximum": high})
        elif value not in formats.FREE:
            known = ", ".join([*formats.PATTERNS, *formats.OF_LLGUIDANCE, *formats.INTEGERS, *formats.FREE])
            fail(self._place("format"), f"is a format that no guide can hold a reply to; there are {known}")
        return {}

    def _part(self, *keys: object) -> Schema:
        """The subschema of a part of the value."""
        return self._preparer.at(self._place(*keys), alone=True)

    def _parts(self, keyword: str) -> list[Schema]:
        return [self._part(keyword, i) for i in range(len(self._keywords[keyword]))]

    def _combination(self, keyword: str) -> dict[str, Any]:
        if not self._keywords[keyword]:
            fail(self._place(keyword), "is empty: give a list of schemas")
        places = [self._place(keyword, i) for i in range(len(self._keywords[keyword]))]
        return {keyword: [self._preparer.at(place, self._alone) for place in places]}

    def _all_of(self, value: list[Any]) -> dict[str, Any]:
        self._check_count_of_patterns()
        return self._combination("allOf")

    def _one_of(self, value: list[Any]) -> dict[str, Any]:
        """As anyOf, if the schemas exclude each other; otherwise llguidance decides."""
        if len(value) > _MAX_ONE_OF:
            fail(self._place("oneOf"), f"has more than {_MAX_ONE_OF:,} schemas; use anyOf")
        schemas = self._combination("oneOf")["oneOf"]
        places = [self._place("oneOf", i) for i in range(len(value))]
        facts = [facts_of(self._preparer.document, place) for place in places]
        for i, j in combinations(range(len(value)), 2):
            if not exclude_each_other(facts[i], facts[j]):
                both = f"{shown(places[i])} and {shown(places[j])}"
                problem = f"may allow a value that is valid twice, by {both}; use anyOf"
                fail(self._place("oneOf"), problem)
        self._besides.append({"anyOf": schemas})
        return {}

    def _items(self, value: Any) -> dict[str, Any]:
        """Also as earlier drafts have it: a list of schemas, and one of all other items in additionalItems."""
        if not isinstance(value, list):
            return {"items": self._part("items")}
        rest = {"items": self._part("additionalItems")} if "additionalItems" in self._keywords else {}
        return {"prefixItems": self._parts("items"), **rest}

    def _additional_items(self, value: Any) -> dict[str, Any]:
        if not isinstance(self._keywords.get("items"), list):
            fail(self._place("additionalItems"), "says nothing, as items is no list; leave it out")
        return {}

    def _unique_items(self, value: bool) -> dict[str, Any]:
        if value and self._keywords.get("maxItems", 2) > 1:
            fail(self._place("uniqueItems"), "is a keyword that no guide can hold a reply to; leave it out")
        return {}

    def _properties(self, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            self._check_text(self._place("properties", name), name)
        return {"properties": {name: self._part("properties", name) for name in value}}

    def _pattern_properties(self, value: dict[str, Any]) -> dict[str, Any]:
        if len(value) > _MAX_NAME_PATTERNS:
            fail(self._place("patternProperties"), f"has more than {_MAX_NAME_PATTERNS} patterns; join some of them")
        made = dict[str, Schema]()
        for each in value:
            pattern = self._rust(self._place("patternProperties", each), each)
            schema = self._part("patternProperties", each)
            made[pattern] = {"allOf": [made[pattern], schema]} if pattern in made else schema
        return {"patternProperties": made}

    def _additional_properties(self, value: Any) -> dict[str, Any]:
        return {"additionalProperties": self._part("additionalProperties")}

    def _required(self, value: list[Any]) -> dict[str, Any]:
        for name in value:
            self._check_text(self._place("required"), name)
        return {"required": value}

    def _min_properties(self, value: int) -> dict[str, Any]:
        """Names that the schema does not require may come twice: only the first of them is sure to be another one."""
        if value > len(set(self._keywords.get("required", []))) + 1:
            fail(self._place("minProperties"), "is more than required has names for; name more properties there")
        return {"minProperties": value}


def _count_of_speakers(keywords: Mapping[str, Any]) -> int:
    """How many parts of a subschema may say which properties the value has."""
    parts = [not OF_OBJECTS.isdisjoint(keywords), "enum" in keywords or "const" in keywords]
    return sum(parts) + sum(key in keywords for key in ("$ref", "anyOf", "oneOf")) + len(keywords.get("allOf", []))


def _names_all(keywords: Mapping[str, Any]) -> bool:
    """Whether a subschema names properties, leaves it open whether there may be others, and needs no others."""
    named: Mapping[str, Any] = keywords.get("properties", {})
    is_open = (
        "properties" in keywords and "additionalProperties" not in keywords and "patternProperties" not in keywords
    )
    return (
        is_open and named.keys() >= set(keywords.get("required", [])) and keywords.get("minProperties", 0) <= len(named)
    )


_REWRITTEN: Mapping[str, Callable[[Subschema, Any], dict[str, Any]]] = {
    **dict.fromkeys(BOUNDS, lambda schema, value: {}),  # see `bounds`
    "type": Subschema._type,
    "$ref": Subschema._reference,
    "const": Subschema._const,
    "enum": Subschema._enum,
    "multipleOf": Subschema._multiple,
    "pattern": Subschema._pattern,
    "format": Subschema._format,
    "allOf": Subschema._all_of,
    "anyOf": lambda schema, value: schema._combination("anyOf"),
    "oneOf": Subschema._one_of,
    "prefixItems": lambda schema, value: {"prefixItems": schema._parts("prefixItems")},
    "items": Subschema._items,
    "additionalItems": Subschema._additional_items,
    "uniqueItems": Subschema._unique_items,
    "properties": Subschema._properties,
    "patternProperties": Subschema._pattern_properties,
    "additionalProperties": Subschema._additional_properties,
    "required": Subschema._required,
    "minProperties": Subschema._min_properties,
}
"""How keywords are rewritten, or checked; others stay as they are."""
