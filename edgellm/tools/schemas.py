"""Schemas of arguments as guides take them, and values that follow one.

Definitions are written for models to read; a guide needs what they mean: `nullable` of OpenAPI becomes a type, and
settings of the guide itself that a definition may hold are dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.tools.tool import Tool

Schema = Mapping[str, Any]
_IN_ONE = ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then")
_IN_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
_IN_MAP = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_DEFINED = ("$defs", "definitions")
DESCRIPTIVE = frozenset(
    ("$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description", "examples", "title")
)
"""Keywords that allow and forbid nothing."""

_UNIONS = ("anyOf", "oneOf")
_MAX_UNIONS = 8
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
    made = {key: _inside(key, value) for key, value in schema.items() if key not in ("nullable", "x-guidance")}
    if schema.get("nullable") is not True:
        return made
    defined = {key: made.pop(key) for key in _DEFINED if key in made}
    return {"anyOf": [made, {"type": "null"}], **defined}


def _inside(key: str, value: Any) -> Any:
    if key in _IN_LIST or (key == "items" and isinstance(value, list)):
        return [guided(each) for each in value] if isinstance(value, list) else value
    if key in _IN_MAP and isinstance(value, Mapping):
        return {name: guided(each) for name, each in value.items()}
    return guided(value) if key in _IN_ONE else value


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

    def branches(self, schema: Any, place: str, depth: int = 0) -> Iterator[tuple[Any, str]]:
        """The schemas of which a value follows one, each of one type or of any, with their places.

        Raises OptionError for a union with keywords beside it or of types that are not disjoint where one must fit.
        """
        schema = self.resolved(schema, place)
        if not isinstance(schema, Mapping) or depth > _MAX_UNIONS:
            yield schema, place
        elif union := next((key for key in _UNIONS if key in schema), ""):
            if beside := sorted(schema.keys() - {union} - DESCRIPTIVE):
                self.refuse(f"{place}.{beside[0]}", f"stands beside {union}")
            if union == "oneOf" and not self._disjoint(schema[union]):
                self.refuse(f"{place}.oneOf", "has types in common")
            for number, each in enumerate(schema[union]):
                yield from self.branches(each, f"{place}.{union}[{number}]", depth + 1)
        elif "enum" in schema or "const" in schema:
            if beside := sorted(schema.keys() - {"type", "enum", "const"} - DESCRIPTIVE):
                self.refuse(f"{place}.{beside[0]}", "stands beside enum or const")
            values = schema.get("enum", [schema.get("const")])
            for kind in sorted({type_name(value) for value in values} & self.types(schema)):
                yield {"type": kind, "enum": [value for value in values if type_name(value) == kind]}, place
        else:
            kinds = schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type")]
            yield from (({**schema, "type": kind} if kind else schema, place) for kind in kinds)

    def types(self, schema: Any, depth: int = 0) -> frozenset[str]:
        """The types that a value may have, with "integer" for "number", too; all of them where nothing says."""
        target = str(schema.get("$ref", "")) if isinstance(schema, Mapping) else ""
        schema = self._defined.get(target) if target else schema
        if not isinstance(schema, Mapping) or depth > _MAX_UNIONS:
            return frozenset(_TYPES)
        if "$ref" in schema:
            return self.types(schema, depth + 1)
        if "type" in schema:
            kinds = {schema["type"]} if isinstance(schema["type"], str) else set(map(str, schema["type"]))
            return frozenset(kinds | ({"integer"} if "number" in kinds else set()))
        if "const" in schema or "enum" in schema:
            return frozenset(type_name(value) for value in schema.get("enum", [schema.get("const")]))
        if union := next((schema[key] for key in _UNIONS if isinstance(schema.get(key), list)), None):
            return frozenset[str]().union(*(self.types(each, depth + 1) for each in union))
        return frozenset(_TYPES)

    def _disjoint(self, schemas: Sequence[Any]) -> bool:
        kinds = [self.types(each) for each in schemas]
        return sum(map(len, kinds)) == len(frozenset[str]().union(*kinds))


def type_name(value: Any) -> str:
    """The type of a value in JSON Schema; "integer" for a number without a fraction."""
    names: Sequence[tuple[type, str]] = [(bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")]
    known = [*names, (Mapping, "object"), (list, "array")]
    return next((name for kind, name in known if isinstance(value, kind)), "null")
