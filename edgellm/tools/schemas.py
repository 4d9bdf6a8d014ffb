"""Schemas of arguments as guides take them, and values that follow one.

Definitions are written for models to read; a guide needs what they mean: `nullable` of OpenAPI becomes a type, and
settings of the guide itself that a definition may hold are dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.text.json_values import is_annotation, type_name
from edgellm.tools.schema_parts import with_parts
from edgellm.tools.tool import Tool

Schema = Mapping[str, Any]
_DEFINED = ("$defs", "definitions")
_UNIONS = ("anyOf", "oneOf")
_BESIDE_VALUES = ("type", "enum", "const", "format", "pattern")
_TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")


def guided_parameters(tool: Tool) -> dict[str, Any]:
    """The schema that a guide holds the arguments of a tool to. It allows others only where the tool's says so."""
    schema: dict[str, Any] = guided(tool.parameters)
    schema.setdefault("type", "object")
    if "properties" in schema and not {"additionalProperties", "patternProperties", "$ref"} & schema.keys():
        schema["additionalProperties"] = False
    return schema


def guided(schema: Any) -> Any:
    """A schema without `nullable` and without settings of the guide, at any depth."""
    if not isinstance(schema, Mapping):
        return schema
    made = {
        key: with_parts(key, value, guided) for key, value in schema.items() if key not in ("nullable", "x-guidance")
    }
    if schema.get("nullable") is not True:
        return made
    defined = {key: made.pop(key) for key in _DEFINED if key in made}
    return {"anyOf": [made, {"type": "null"}], **defined}


def restricting(schema: Schema, *others: str) -> list[str]:
    """The keywords of a schema that allow or forbid values, but for some others, in the order of the alphabet."""
    return sorted(key for key in schema.keys() - set(others) if not is_annotation(key))


class Definitions:
    """The definitions that references of one schema name. `tool` is for messages."""

    def __init__(self, tool: str, root: Schema) -> None:
        self.tool = tool
        self._defined = {
            f"#/{section}/{name}": schema for section in _DEFINED for name, schema in root.get(section, {}).items()
        }
        self._sections = {section: root[section] for section in _DEFINED if section in root}

    def resolved(self, schema: Any, place: str) -> Any:
        """What a schema that is a reference refers to. Raises OptionError for a reference to somewhere else."""
        seen = set[str]()
        while isinstance(schema, Mapping) and "$ref" in schema:
            target = str(schema["$ref"])
            if target not in self._defined or target in seen:
                self.refuse(place, f"refers to {printable(target)}")
            seen.add(target)
            schema = self._defined[target]
        return schema

    def whole(self, schema: Any) -> Any:
        """A part of the schema as a schema of its own."""
        return {**schema, **self._sections} if isinstance(schema, Mapping) else schema

    def refuse(self, place: str, problem: str) -> NoReturn:
        """Raise OptionError that names the tool and the place in its schema."""
        advice = "simplify the schema, or choose a model whose calls are JSON"
        raise OptionError(
            f"tool {self.tool}: {printable(place)} {problem}, which calls of this model cannot be held to; {advice}"
        )

    def branches(self, schema: Any, place: str, follow: bool = True) -> list[tuple[Any, str]]:
        """The schemas of which a value follows one, each of one type or of any, with their places.

        A reference is followed once, or with `follow` False it is a branch. Raises OptionError for a union with
        keywords beside it or of types that are not disjoint where one must fit, and if there is no branch.
        """
        found = list(self._branches(schema, place, follow))
        return found or self.refuse(place, "allows no value")

    def _branches(self, schema: Any, place: str, follow: bool) -> Iterator[tuple[Any, str]]:
        seen, waiting = set[str](), [(schema, place)]
        while waiting:
            schema, place = waiting.pop()
            if isinstance(schema, Mapping) and "$ref" in schema and follow:
                if (target := str(schema["$ref"])) in seen:
                    continue
                seen.add(target)
                schema = self.resolved(schema, place)
            if not isinstance(schema, Mapping) or "$ref" in schema:
                yield from [] if schema is False else [(schema, place)]
            elif union := next((key for key in _UNIONS if key in schema), ""):
                self._check_union(schema, union, place)
                waiting += [(each, f"{place}.{union}[{i}]") for i, each in enumerate(schema[union])][::-1]
            else:
                yield from ((each, place) for each in self._of_one_type(schema, place))

    def _check_union(self, schema: Schema, union: str, place: str) -> None:
        if beside := restricting(schema, union):
            self.refuse(f"{place}.{beside[0]}", f"stands beside {union}")
        if union == "oneOf" and not self._disjoint(schema[union]):
            self.refuse(f"{place}.oneOf", "has types in common")

    def _of_one_type(self, schema: Schema, place: str) -> list[Schema]:
        if "enum" not in schema and "const" not in schema:
            kinds = schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type")]
            return [{**schema, "type": kind} if kind else schema for kind in kinds]
        if beside := restricting(schema, *_BESIDE_VALUES):
            self.refuse(f"{place}.{beside[0]}", "stands beside enum or const")
        values = schema.get("enum", [schema.get("const")])
        kinds = sorted({type_name(value) for value in values} & self.types(schema))
        return [{"type": kind, "enum": [value for value in values if type_name(value) == kind]} for kind in kinds]

    def types(self, schema: Any) -> frozenset[str]:
        """The types that a value may have, with "integer" for "number", too; all of them where nothing says."""
        found, seen, waiting = set[str](), set[str](), [schema]
        while waiting:
            schema = waiting.pop()
            if isinstance(schema, Mapping) and "$ref" in schema:
                target = str(schema["$ref"])
                waiting += [] if target in seen else [self._defined.get(target)]
                seen.add(target)
            elif isinstance(schema, Mapping) and (members := _members(schema)) is not None:
                waiting += members
            else:
                found |= _own_types(schema)
        return frozenset(found)

    def _disjoint(self, schemas: Sequence[Any]) -> bool:
        kinds = [self.types(each) for each in schemas]
        return sum(map(len, kinds)) == len(frozenset[str]().union(*kinds))


def _members(schema: Schema) -> Sequence[Any] | None:
    """The schemas of a union that says nothing of types itself; None for another schema."""
    if {"type", "const", "enum"} & schema.keys():
        return None
    return next((schema[key] for key in _UNIONS if key in schema), None)


def _own_types(schema: Any) -> frozenset[str]:
    """The types that a schema without references and unions names."""
    if isinstance(schema, Mapping) and "type" in schema:
        kinds = {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
        return frozenset(kinds | ({"integer"} if "number" in kinds else set()))
    if isinstance(schema, Mapping) and {"const", "enum"} & schema.keys():
        return frozenset(type_name(value) for value in schema.get("enum", [schema.get("const")]))
    return frozenset(_TYPES)
