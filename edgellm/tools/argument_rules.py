"""Rules of arguments that a format writes one by one, each in the notation of the format."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from edgellm.tools.grammar import Grammar, alternatives, literal
from edgellm.tools.schemas import DESCRIPTIVE, Definitions, Schema, guided_parameters, type_name
from edgellm.tools.tool import Tool

_OF_OBJECTS = frozenset(("type", "properties", "required", "additionalProperties"))


class Item(NamedTuple):
    """The rule body of an argument, and whether it must be there."""

    body: str
    required: bool


Write = Callable[[str, Any, str], str]
"""Gives the rule body of an argument from its name, its schema and the place of that in the tool's schema."""


def arguments_of(tool: Tool) -> tuple[Definitions, Schema]:
    """The schema of a tool's arguments as an object whose properties stand side by side, and its definitions.

    Raises OptionError for a schema with anything else.
    """
    schema = guided_parameters(tool)
    defined = Definitions(tool.name, schema)
    resolved = defined.resolved(schema, "parameters")
    check_object(defined, resolved, "parameters")
    return defined, resolved


def check_object(defined: Definitions, schema: Schema, place: str) -> None:
    """Raise OptionError unless an object's schema has properties and required names alone."""
    if unknown := sorted(schema.keys() - _OF_OBJECTS - DESCRIPTIVE):
        defined.refuse(f"{place}.{unknown[0]}", "is a keyword")
    properties = schema.get("properties", {})
    if unknown := [name for name in schema.get("required", []) if name not in properties]:
        defined.refuse(f"{place}.required", f"names {unknown[0]}, which has no schema")


def items(schema: Schema, place: str, write: Write, ordered: Callable[[str], Any] | None = None) -> list[Item]:
    """The properties of an object, in the order of the schema or as `ordered` sorts them."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    names = sorted(properties, key=ordered) if ordered else list(properties)
    return [Item(write(name, properties[name], f"{place}.properties.{name}"), name in required) for name in names]


def sequence(grammar: Grammar, prefix: str, found: Sequence[Item], separator: str) -> str:
    """The rule body of arguments in order, with a separator between two that are there. `prefix` begins rule names."""
    if not separator:
        return " ".join(f"({item.body})" if item.required else f"({item.body})?" for item in found) or '""'
    behind, first = '""', '""'  # the rest behind an argument, and the rest if there was none yet
    for number, item in reversed(list(enumerate(found))):
        more = f"{literal(separator)} ({item.body})"
        begun = f"({item.body}) {behind}"
        first = grammar.add(f"{prefix}_first_{number}", begun if item.required else f"{begun} | {first}")
        behind = grammar.add(f"{prefix}_rest_{number}", f"({more}){'' if item.required else '?'} {behind}")
    return first


def string_body(grammar: Grammar, defined: Definitions, schema: Schema, place: str) -> str | None:
    """The rule body of a text without quotes that follows a schema; None if any text does."""
    known = {"type", "enum", "const", "minLength", "maxLength"} | DESCRIPTIVE
    if unknown := sorted(schema.keys() - known):
        defined.refuse(f"{place}.{unknown[0]}", "is a keyword for text")
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return alternatives(*(literal(value) for value in values if type_name(value) == "string"))
    if {"minLength", "maxLength"} & schema.keys():
        return f"/(?s:.{{{schema.get('minLength', 0)},{schema.get('maxLength', '')}}})/"
    return None
