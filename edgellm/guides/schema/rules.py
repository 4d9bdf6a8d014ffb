"""The rules of arrays and objects: which items follow each other, and how many there are."""

from typing import Protocol

from edgellm.guides.schema.document import fail
from edgellm.guides.schema.json_text import COLON, COMMA, write_json
from edgellm.guides.schema.part import Arrays, Conjunction, Objects
from edgellm.guides.schema.possible import Possible
from edgellm.guides.schema.shapes import fewest, names, property_schema
from edgellm.guides.schema.terminals import literal, name_terminal

_MAX_STATES = 20_000
"""Rules of one object: properties times how many of them there may be."""


class Writer(Protocol):
    """What writes a grammar; see `edgellm.guides.schema.grammar.SchemaWriter`."""

    possible: Possible

    def rule(self, schema: Conjunction) -> str:
        """The name of the rule for the values of a schema."""

    def terminal(self, expression: str) -> str:
        """The name of a terminal."""

    def add_rule(self, body: str) -> str:
        """Add a rule; returns its name."""


def array_rule(writer: Writer, arrays: Arrays) -> str:
    """The body of the rule of an array, which has a value."""
    n, most = len(arrays.prefix), arrays.most
    for i, schema in enumerate((*arrays.prefix, arrays.rest)):
        if not writer.possible(schema):
            most, n = fewest(most, i), min(n, i)
            break
    has_rest = n == len(arrays.prefix) and (most is None or most > n)
    rest = writer.rule(arrays.rest) if has_rest and writer.possible(arrays.rest) else ""
    items = _several(rest, arrays.least - n, None if most is None else most - n, first=n == 0) if rest else ""
    for i in reversed(range(n)):
        if most is None or i < most:
            comma = f"{literal(COMMA)} " if i else ""
            items = f"{comma}{writer.rule(arrays.prefix[i])} {items}".rstrip()
            items = items if i < arrays.least else f"({items})?"
    return f'"[" {items} "]"'


def _several(item: str, least: int, most: int | None, first: bool) -> str:
    """From `least` to `most` items, with commas between, and one before unless they are the first."""
    least = max(0, least)
    if not first:
        return _repeated(f"{literal(COMMA)} {item}", least, most)
    more = _repeated(f"{literal(COMMA)} {item}", max(0, least - 1), None if most is None else most - 1)
    return f"{item} {more}" if least else f"({item} {more})?"


def _repeated(items: str, least: int, most: int | None) -> str:
    return "" if most == 0 else f"({items}){{{least},{'' if most is None else most}}}"


class ObjectRules:
    """The rules of one object.

    Its properties come in order, then those without a name in the schema. A rule is written for each number of
    properties that are left, and for each number that came before, as far as that matters: whether a comma is needed,
    and how many are missing or allowed.
    """

    def __init__(self, writer: Writer, schema: Conjunction, objects: Objects) -> None:
        self._writer, self._schema, self._objects = writer, schema, objects
        self._names = [name for name in names(objects) if writer.possible(property_schema(objects, name))]
        self._counted = max(1, objects.least, objects.most or 0)
        self._states: dict[tuple[int, int], str | None] = {}
        self._others = self._other_properties()
        if len(self._names) * self._counted > _MAX_STATES:
            fail(schema[0], "has too many properties for its minProperties or maxProperties")

    def body(self) -> str:
        """The body of the rule. Raises GuideError."""
        inside: str | None = None
        required = [name in self._objects.required for name in self._names]
        for i in reversed(range(len(self._names) + 1)):  # so that the recursion is never deep
            for count in reversed(range(min(sum(required[:i]), self._counted), min(i, self._counted) + 1)):
                inside = self._state(i, count)
        if inside is None:
            problem = (
                "needs more properties (minProperties) than it names, and no guide keeps other names from repeating"
            )
            fail(self._schema[0], problem)
        return f'"{{" {inside} "}}"'

    def _other_properties(self) -> str:
        """A rule's alternatives for a property without a name in the schema; empty if there are none."""
        taken, writer = names(self._objects), self._writer
        return " | ".join(
            f"{writer.terminal(name_terminal(each, taken))} {literal(COLON)} {writer.rule(each.schema)}"
            for each in writer.possible.others(self._objects)
        )

    def _state(self, i: int, count: int) -> str | None:
        """The rule for the properties from the i-th on, after `count` others; None if they cannot be enough."""
        if (i, count) not in self._states:
            body = self._last(count) if i == len(self._names) else self._next(i, count)
            self._states[i, count] = None if body is None else self._writer.add_rule(body)
        return self._states[i, count]

    def _next(self, i: int, count: int) -> str | None:
        name, objects = self._names[i], self._objects
        alternatives = list[str]()
        after = self._state(i + 1, min(count + 1, self._counted))
        if after is not None and (objects.most is None or count < objects.most):
            comma = f"{literal(COMMA)} " if count else ""
            value = self._writer.rule(property_schema(objects, name))
            alternatives.append(f"{comma}{literal(write_json(name))} {literal(COLON)} {value} {after}")
        if name not in objects.required and (without := self._state(i + 1, count)) is not None:
            alternatives.append(without)
        return " | ".join(alternatives) or None

    def _last(self, count: int) -> str | None:
        """The properties without a name in the schema. As these may repeat, only the first is sure to be another."""
        missing = self._objects.least - count
        room = None if self._objects.most is None else self._objects.most - count
        if missing > (1 if self._others else 0):
            return None
        if not self._others or room == 0:
            return literal("")
        return _several(f"({self._others})", missing, room, first=count == 0)
