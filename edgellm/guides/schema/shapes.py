"""The shapes of values: what is left of a schema, when its references and combinations are worked out."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from edgellm.guides.patterns.nodes import Node
from edgellm.guides.patterns.text import matches
from edgellm.guides.schema.numbers import Numbers
from edgellm.guides.schema.part import Arrays, Conjunction, Objects, Part, PropertyRules, Strings


@dataclass(frozen=True)
class Fixed:
    """Some values, by their JSON text."""

    values: tuple[Any, ...]


Shape = Fixed | Numbers | Strings | Arrays | Objects


def shapes_of(part: Part) -> list[Shape]:
    """The shapes of values that one subschema allows, apart from its literals and combinations."""
    shapes = list[Shape]()
    if "null" in part.types:
        shapes.append(Fixed((None,)))
    if "boolean" in part.types:
        shapes.append(Fixed((True, False)))
    if {"number", "integer"} & part.types:
        shapes.append(part.numbers & Numbers(integer="number" not in part.types))
    typed: dict[str, Shape] = {"string": part.strings, "array": part.arrays, "object": part.objects}
    return [*shapes, *(shape for name, shape in typed.items() if name in part.types)]


def meet(one: Shape, other: Shape) -> Shape | None:
    """The values of both shapes; None for shapes of different types. Neither is Fixed."""
    if isinstance(one, Numbers) and isinstance(other, Numbers):
        return one & other
    if isinstance(one, Strings) and isinstance(other, Strings):
        patterns = tuple(dict.fromkeys(one.patterns + other.patterns))
        return Strings(max(one.least, other.least), fewest(one.most, other.most), patterns)
    if isinstance(one, Arrays) and isinstance(other, Arrays):
        n = max(len(one.prefix), len(other.prefix))
        prefix = tuple(joined(item(one, i), item(other, i)) for i in range(n))
        most = fewest(one.most, other.most)
        return Arrays(prefix, joined(one.rest, other.rest), max(one.least, other.least), most)
    if isinstance(one, Objects) and isinstance(other, Objects):
        required = tuple(dict.fromkeys(one.required + other.required))
        most = fewest(one.most, other.most)
        return Objects(one.rules + other.rules, required, max(one.least, other.least), most)
    return None


def joined(*schemas: Conjunction) -> Conjunction:
    """Schemas that all hold, each once."""
    return tuple(dict.fromkeys(each for schema in schemas for each in schema))


def fewest(one: int | None, other: int | None) -> int | None:
    """The smaller of two limits, of which None is none."""
    return min((each for each in (one, other) if each is not None), default=None)


def item(arrays: Arrays, i: int) -> Conjunction:
    """The schema of an item of an array."""
    return arrays.prefix[i] if i < len(arrays.prefix) else arrays.rest


def property_schema(objects: Objects, name: str) -> Conjunction:
    """The schema of a property of an object."""
    return joined(*(_by_rules(rules, name) for rules in objects.rules))


def _by_rules(rules: PropertyRules, name: str) -> Conjunction:
    found = [schema for node, schema in rules.patterns if matches(node, name)]
    if name in rules.named:
        found.insert(0, rules.named[name])
    return joined(*found) if found else rules.rest


def names(objects: Objects) -> list[str]:
    """The names that rules mention or that are required, in the order in which a reply has them."""
    mentioned = [name for rules in objects.rules for name in rules.named]
    return list(dict.fromkeys([*mentioned, *objects.required]))


@dataclass(frozen=True)
class OtherNames:
    """The properties that no rule names: those whose names match all of some patterns and none of others."""

    matching: tuple[Node, ...]
    lacking: tuple[Node, ...]
    schema: Conjunction


def other_names(objects: Objects) -> Iterator[OtherNames]:
    """The properties that no rule names, by which of the patterns their names match."""
    patterns = list(dict.fromkeys(node for rules in objects.rules for node, _ in rules.patterns))
    for chosen in product((True, False), repeat=len(patterns)):
        matching = tuple(node for node, is_in in zip(patterns, chosen, strict=True) if is_in)
        lacking = tuple(node for node, is_in in zip(patterns, chosen, strict=True) if not is_in)
        yield OtherNames(matching, lacking, joined(*(_of_others(rules, matching) for rules in objects.rules)))


def _of_others(rules: PropertyRules, matching: tuple[Node, ...]) -> Conjunction:
    found = [schema for node, schema in rules.patterns if node in matching]
    return joined(*found) if found else rules.rest


def children(shape: Shape) -> Iterator[Conjunction]:
    """The schemas of the items or properties of a shape."""
    if isinstance(shape, Arrays):
        yield from (*shape.prefix, shape.rest)
    if isinstance(shape, Objects):
        yield from (property_schema(shape, name) for name in names(shape))
        yield from (others.schema for others in other_names(shape))
