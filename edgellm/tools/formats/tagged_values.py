"""Values between tags: text as it is, and everything else as JSON. The schema of an argument says which."""

from typing import Any

from edgellm.fmt import printable
from edgellm.text.json_values import type_name
from edgellm.tools.argument_rules import is_any_text, text_up_to
from edgellm.tools.grammar import Grammar, alternatives
from edgellm.tools.maker import parsed
from edgellm.tools.notation import JSON, PYTHON
from edgellm.tools.schemas import Definitions, guided_parameters
from edgellm.tools.source import MalformedError
from edgellm.tools.tool import Tool


def value_of(tool: Tool, name: str, text: str) -> Any:
    """The value that a text between tags means by the schema of the argument. Raises MalformedError if it has none.

    A text that is a value of another type of the schema is that value: of text or number, 5 is a number.
    """
    schema = guided_parameters(tool)
    types = Definitions(tool.name, schema).types(schema.get("properties", {}).get(name, {}))
    if types == {"string"}:
        return text
    try:
        value = parsed(text, PYTHON if {"object", "array", "boolean", "null"} & types else JSON)
    except MalformedError:
        return _as_text(types, name, text)
    kind = type_name(value)
    if kind == "number" and "number" not in types and value == int(value):
        value, kind = int(value), "integer"
    if kind in types:
        return value
    return _as_text(types, name, text)


def _as_text(types: frozenset[str], name: str, text: str) -> str:
    if "string" not in types:
        wanted = " or ".join(sorted(types))
        raise MalformedError(f"the argument {printable(name)} is {printable(text, 40)!r}, which is no {wanted}")
    return text


def value_rule(grammar: Grammar, defined: Definitions, schema: Any, place: str, end: str, without: str = "") -> str:
    """The rule body of a value and the mark or text `end` behind it; see `text_up_to`."""
    bodies = list[str]()
    for branch, at in defined.branches(schema, place):
        if "string" not in defined.types(branch):
            bodies.append(f"{grammar.json(defined.whole(branch))} {grammar.mark(end)}")
            continue
        text = text_up_to(grammar, defined, branch if isinstance(branch, dict) else {}, at, end, without)
        if not isinstance(branch, dict) or is_any_text(branch):
            return text  # any other value is such a text
        bodies.append(text)
    return alternatives(*bodies)
