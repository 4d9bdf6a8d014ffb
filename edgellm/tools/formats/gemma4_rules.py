"""Rules of arguments in Gemma 4's notation, which is not JSON, from a JSON schema."""

from collections.abc import Mapping
from typing import Any

from edgellm.tools.argument_rules import arguments_of, check_object, items, sequence, text_up_to
from edgellm.tools.grammar import Grammar, alternatives, literal
from edgellm.tools.notation import NAME
from edgellm.tools.schemas import Definitions, Schema, restricting
from edgellm.tools.tool import Tool

QUOTE = '<|"|>'
"""The mark before and behind a text."""

_JSON_TYPES = ("integer", "number", "boolean", "null")


def argument_object(grammar: Grammar, tool: Tool) -> str:
    """The rule body of the arguments of a tool. Raises OptionError for a keyword that the rules cannot follow."""
    defined, schema = arguments_of(tool)
    return _Writer(grammar, defined, list(grammar.tools).index(tool.name)).object(schema, "parameters")


class _Writer:
    def __init__(self, grammar: Grammar, defined: Definitions, number: int) -> None:
        self._grammar, self._defined, self._number = grammar, defined, number
        self._rules = dict[str, str]()  # of references, by their target
        self._objects = 0

    def value(self, schema: Any, place: str) -> str:
        branches = self._defined.branches(schema, place, follow=False)
        return alternatives(*(self._branch(*branch) for branch in branches))

    def object(self, schema: Schema, place: str) -> str:
        check_object(self._defined, schema, place)
        if "properties" not in schema:
            return self._map(schema.get("additionalProperties", True), f"{place}.additionalProperties")
        self._objects += 1
        prefix = f"object_{self._number}_{self._objects}"
        found = items(schema, place, lambda name, each, at: f"{self._key(name)} {self.value(each, at)}", str.lower)
        return f'"{{" {sequence(self._grammar, prefix, found, ",")} "}}"'

    def _branch(self, schema: Any, place: str) -> str:
        """The rule body of a schema of one type, or of any, or of a reference."""
        if not isinstance(schema, Mapping) or not restricting(schema):
            return self._any()
        if "$ref" in schema:
            return self._reference(schema, place)
        kind = schema.get("type")
        if kind in _JSON_TYPES:
            return self._grammar.json(self._defined.whole(schema))
        if kind == "string":
            return self._text(schema, place)
        if "enum" in schema or kind not in ("object", "array"):
            self._defined.refuse(place, f"is a constant of the type {kind}" if kind else "has no type")
        return self.object(schema, place) if kind == "object" else self._list(schema, place)

    def _list(self, schema: Schema, place: str) -> str:
        self._refuse_others(schema, place, "type", "items", "minItems", "maxItems")
        item = self.value(schema.get("items", True), f"{place}.items")
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most == 0:
            return '"[" "]"'
        more = f'("," {item}){{{max(least - 1, 0)},{"" if most is None else most - 1}}}'
        listed = f'"[" {item} {more} "]"'
        return listed if least else f'({listed} | "[]")'

    def _reference(self, schema: Schema, place: str) -> str:
        target = str(schema["$ref"])
        if target not in self._rules:
            self._rules[target] = name = f"defined_{self._number}_{len(self._rules)}"
            self._grammar.add(name, self.value(self._defined.resolved(schema, place), target.removeprefix("#/")))
        return self._rules[target]

    def _refuse_others(self, schema: Schema, place: str, *known: str) -> None:
        if unknown := restricting(schema, *known):
            self._defined.refuse(f"{place}.{unknown[0]}", "is a keyword")

    def _key(self, name: str) -> str:
        quote = self._grammar.mark(QUOTE)
        return literal(f"{name}:") if NAME.fullmatch(name) else f'{quote} {literal(name)} {quote} ":"'

    def _text(self, schema: Schema, place: str) -> str:
        return f"{self._grammar.mark(QUOTE)} {text_up_to(self._grammar, self._defined, schema, place, QUOTE)}"

    def _map(self, schema: Any, place: str) -> str:
        """The rule body of an object with any keys, whose values follow a schema."""
        if schema is False:
            return '"{" "}"'
        self._objects += 1
        value = self.value(schema, place)
        entry = self._grammar.add(f"entry_{self._number}_{self._objects}", f'/[\\w.$-]+/ ":" {value}')
        return f'"{{" ({entry} ("," {entry})*)? "}}"'

    def _any(self) -> str:
        text, value = self._text({}, ""), "any_value"
        scalar = self._grammar.json({"type": list(_JSON_TYPES)})
        listed, entries = f'"[" ({value} ("," {value})*)? "]"', '"{" (any_entry ("," any_entry)*)? "}"'
        self._grammar.add("any_entry", f'/[\\w.$-]+/ ":" {value}')
        return self._grammar.add(value, f"{text} | {scalar} | {listed} | {entries}")
