"""Rules of arguments that a format writes one by one, each in the notation of the format."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from edgellm.text.json_values import type_name
from edgellm.tools.grammar import Grammar, alternatives, literal, pattern
from edgellm.tools.schemas import Definitions, Schema, guided_parameters, restricting
from edgellm.tools.tool import Tool

_OF_OBJECTS = ("type", "properties", "required", "additionalProperties")
_IN_TAGS = re.compile(r"[^\s<>]+(?: [^\s<>]+)*")
_OF_TEXTS = ("type", "enum", "const", "minLength", "maxLength", "format", "pattern")


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
    if unknown := restricting(schema, *_OF_OBJECTS):
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


def is_any_text(schema: Schema) -> bool:
    """Whether a schema of texts holds them to nothing."""
    return not {"enum", "const", "minLength", "maxLength"} & schema.keys()


def text_up_to(grammar: Grammar, defined: Definitions, schema: Schema, place: str, end: str, without: str = "") -> str:
    """The rule body of a text without quotes that follows a schema, and of the mark `end` behind it.

    `without` is a regular expression of what the text has nowhere. Of the schema, `format` and `pattern` only describe
    the text. If the mark is no token, a text with a limit of length has no character like the first one of the mark.
    Raises OptionError for other keywords.
    """
    if unknown := restricting(schema, *_OF_TEXTS):
        defined.refuse(f"{place}.{unknown[0]}", "is a keyword for text")
    if "const" in schema or "enum" in schema:
        values = [value for value in schema.get("enum", [schema.get("const")]) if type_name(value) == "string"]
        return alternatives(*(grammar.text_and_mark(value, end) for value in values))
    if is_any_text(schema):
        return grammar.up_to("text_value", end, without=without)
    length = f"{{{schema.get('minLength', 0)},{schema.get('maxLength', '')}}}"
    if grammar.is_token(end):
        return f"/(?s:.){length}/ {grammar.mark(end)}"
    # A word goes on as long as it can, over the mark, too. So the mark belongs to it, and must be the first one there.
    return f"/[^{pattern(end.strip()[0])}]{length}{pattern(end)}/"


def check_names(defined: Definitions, schema: Schema, names: re.Pattern[str] = _IN_TAGS) -> None:
    """Raise OptionError for an argument with a name that cannot be read back where calls have it without quotes."""
    if unreadable := [name for name in schema.get("properties", {}) if not names.fullmatch(name)]:
        defined.refuse(f"parameters.properties.{unreadable[0]}", "is a name")
