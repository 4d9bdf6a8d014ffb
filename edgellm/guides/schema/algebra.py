"""What a schema comes to: references followed, and combinations worked out, as far as the values are not nested.

A schema is a conjunction of subschemas. A value that is valid has one of the conjunction's shapes; the schemas of its
items and properties are conjunctions again. There are finitely many of them, also where a schema refers to itself.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from edgellm.guides.patterns.text import matches
from edgellm.guides.schema.document import Document, Pointer, fail
from edgellm.guides.schema.numbers import NumberError, Numbers
from edgellm.guides.schema.part import Arrays, Conjunction, Objects, Part, Strings, read_part, same
from edgellm.guides.schema.shapes import Fixed, Shape, item, meet, property_schema, shapes_of

_MAX_SHAPES = 512
"""Alternatives of one value: combinations of anyOf multiply."""

_MAX_PATTERNS = 6

_ANY: list[Shape] = [Fixed((None,)), Fixed((True, False)), Numbers(), Strings(), Arrays(), Objects()]


def is_valid(schema: str, value: Any) -> bool:
    """Whether a JSON value is valid against a schema, which is JSON text. Raises GuideError."""
    return Algebra(Document(schema)).accepts(((),), value)


class Algebra:
    """The shapes of conjunctions of a document. `exclusive` are lists of schemas that must exclude each other."""

    def __init__(self, document: Document) -> None:
        self.exclusive: dict[Conjunction, None] = {}
        self._document = document
        self._parts: dict[Pointer, Part] = {}
        self._shapes: dict[Conjunction, list[Shape] | None] = {}

    def shapes(self, schema: Conjunction) -> list[Shape]:
        """The shapes of values that are valid. Raises GuideError for what no guide can follow."""
        if schema not in self._shapes:
            self._shapes[schema] = None
            self._shapes[schema] = self._expand(schema)
        found = self._shapes[schema]
        if found is None:
            fail(schema[0], "refers to itself, without an array or object between")
        return found

    def accepts(self, schema: Conjunction, value: Any) -> bool:
        """Whether a value is valid."""
        return all(self._part_accepts(self._part(each), value) for each in schema)

    def _expand(self, schema: Conjunction) -> list[Shape]:
        parts = {place: self._part(place) for place in self._flat(schema)}
        literals = [part.literals for part in parts.values() if part.literals is not None]
        if literals:
            values = [value for value in literals[0] if self.accepts(schema, value)]
            return [Fixed(tuple(values))] if values else []
        shapes = list(_ANY)
        for place, part in parts.items():
            shapes = self._product(place, shapes, shapes_of(part))
            for group in part.any_of + part.one_of:
                shapes = self._product(place, shapes, [each for one in group for each in self.shapes((one,))])
            self.exclusive |= dict.fromkeys(part.one_of)
        for shape in shapes:
            self._check(schema, shape)
        return shapes

    def _check(self, schema: Conjunction, shape: Shape) -> None:
        """Raises GuideError for a shape that cannot be written as a grammar."""
        if isinstance(shape, Numbers):
            try:
                shape.check()
            except NumberError as error:
                fail(schema[0], str(error))
        if (
            isinstance(shape, Objects)
            and len({node for rules in shape.rules for node, _ in rules.patterns}) > _MAX_PATTERNS
        ):
            fail(schema[0], f"has more than {_MAX_PATTERNS} patterns in patternProperties")

    def _flat(self, schema: Conjunction, above: Conjunction = ()) -> Iterator[Pointer]:
        """The subschemas of a conjunction, and those that they name in allOf and $ref."""
        for place in schema:
            if place in above:
                fail(place, "refers to itself, without an array or object between")
            yield place
            yield from self._flat(self._part(place).all_of, (*above, place))

    def _part(self, place: Pointer) -> Part:
        if place not in self._parts:
            self._parts[place] = read_part(self._document, place)
        return self._parts[place]

    def _product(self, place: Pointer, ones: list[Shape], others: list[Shape]) -> list[Shape]:
        found = [shape for one in ones for other in others if (shape := self._meet(one, other)) is not None]
        if len(found) > _MAX_SHAPES:
            fail(place, f"has more than {_MAX_SHAPES} combinations of alternatives")
        return found

    def _meet(self, one: Shape, other: Shape) -> Shape | None:
        if isinstance(other, Fixed):
            one, other = other, one
        if not isinstance(one, Fixed):
            return meet(one, other)
        values = tuple(value for value in one.values if self._shape_accepts(other, value))
        return Fixed(values) if values else None

    def _part_accepts(self, part: Part, value: Any) -> bool:
        return (
            (part.literals is None or any(same(value, each) for each in part.literals))
            and any(self._shape_accepts(shape, value) for shape in shapes_of(part))
            and self.accepts(part.all_of, value)
            and all(any(self.accepts((each,), value) for each in group) for group in part.any_of)
            and all(sum(self.accepts((each,), value) for each in group) == 1 for group in part.one_of)
        )

    def _shape_accepts(self, shape: Shape, value: Any) -> bool:
        if isinstance(shape, Fixed):
            return any(same(value, each) for each in shape.values)
        if isinstance(shape, Numbers):
            is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
            return is_number and Decimal(str(value)) in shape
        if isinstance(shape, Strings):
            return (
                isinstance(value, str) and _within(len(value), shape) and all(matches(p, value) for p in shape.patterns)
            )
        if isinstance(shape, Arrays):
            return (
                isinstance(value, list)
                and _within(len(value), shape)
                and all(self.accepts(item(shape, i), each) for i, each in enumerate(value))
            )
        return (
            isinstance(value, dict)
            and _within(len(value), shape)
            and all(name in value for name in shape.required)
            and all(self.accepts(property_schema(shape, name), each) for name, each in value.items())
        )


def _within(n: int, shape: Strings | Arrays | Objects) -> bool:
    return shape.least <= n and (shape.most is None or n <= shape.most)
