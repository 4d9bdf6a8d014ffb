"""The schema of a body, recorded while its reader reads bodies: so it has the fields and the checks of the code."""

from collections.abc import Callable, Iterable, Mapping
from types import UnionType
from typing import Any, get_args, get_type_hints

from edgellm.options import GenerationOptions
from edgellm.server.fields import Fields, Schema

_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", tuple: "array", type(None): "null"}


def recorded(read: Callable[[Fields], object], bodies: Iterable[Mapping[str, Any]]) -> Schema:
    """The schema of what `read` accepts; `bodies` must take all its ways. Raises RequestError for a body at fault.

    A field that is read in several ways may have any of them. So what the schema excludes is refused, but not all that
    is refused is excluded.
    """
    found = [RecordedFields(body) for body in bodies]
    for fields in found:
        read(fields)
    return _object_schema(found)


class RecordedFields(Fields):
    """A JSON object that remembers how it is read."""

    def __init__(self, values: Mapping[str, Any], where: str = "") -> None:
        super().__init__(values, where)
        self.schemas: dict[str, list[Schema]] = {}
        self.objects_in: dict[tuple[str, str], list[RecordedFields]] = {}
        self.is_closed = False

    def finish(self) -> None:
        """Remember that no other fields are allowed."""
        self.is_closed = True
        super().finish()

    def _value(self, name: str, schema: Schema) -> Any:
        self.schemas.setdefault(name, []).append(schema)
        return super()._value(name, schema)

    def _inside(self, value: object, name: str, place: str = "") -> Fields:
        found = RecordedFields.of(value, f"{self.path(name)}{place}")
        assert isinstance(found, RecordedFields)
        self.objects_in.setdefault((name, "items" if place else ""), []).append(found)
        return found


def _object_schema(found: list[RecordedFields]) -> Schema:
    """The schema of objects that were read at the same place."""
    names = dict.fromkeys(name for each in found for name in each.schemas)
    schema: Schema = {"type": "object", "properties": {name: _field_schema(name, found) for name in names}}
    if required := [name for name in names if all(any(map(_excludes_null, e.schemas.get(name, ()))) for e in found)]:
        schema["required"] = required
    if all(each.is_closed for each in found):
        schema["additionalProperties"] = {"type": "null"}  # which counts as not given
    return schema


def _excludes_null(schema: Schema) -> bool:
    return None not in schema["enum"] if "enum" in schema else "null" not in schema.get("type", "null")


def _field_schema(name: str, found: list[RecordedFields]) -> Schema:
    schema = _union([_of_option(each) for fields in found for each in fields.schemas.get(name, ())])
    for place in ("", "items"):
        if objects := [each for fields in found for each in fields.objects_in.get((name, place), ())]:
            inner = _object_schema(objects)
            schema |= {"items": inner} if place else {key: inner[key] for key in inner if key != "type"}
    return schema


def _union(schemas: list[Schema]) -> Schema:
    """A schema for what at least one of several allows."""
    if all(each == schemas[0] for each in schemas):
        return dict(schemas[0])
    if any(not ({"type", "enum"} & each.keys()) for each in schemas):
        return {}
    if all("enum" in each for each in schemas):
        return {"enum": list({repr(value): value for each in schemas for value in each["enum"]}.values())}
    types = [_json_types(each) for each in schemas]
    return {"type": list(dict.fromkeys(name for each in types for name in each))}


def _json_types(schema: Schema) -> list[str]:
    if "enum" in schema:
        return [_TYPES.get(type(value), "array") for value in schema["enum"]]
    return [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])


def _of_option(schema: Schema) -> Schema:
    """The schema of a value for an option, of its type; others as they are."""
    if (name := schema.get("option")) is None:
        return schema
    hint = get_type_hints(GenerationOptions)[name]
    hints = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    types = {_TYPES[getattr(each, "__origin__", each)] for each in hints} | {"null"}
    if "array" in types:  # one text is a list of one
        types.add("string")
    return {"type": sorted(types), "description": GenerationOptions.help(name)}
