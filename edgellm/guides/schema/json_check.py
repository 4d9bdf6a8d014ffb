"""Whether a JSON value is valid against a schema, for the keywords that guides follow.

The check does not depend on the guide that it judges, but for patterns and formats of strings. Numbers of one value
are the same, as 1 and 1.0.
"""

import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from operator import ge, gt, le, lt
from typing import Any

from edgellm.guides.compile import accepts
from edgellm.guides.schema.document import Document, Pointer
from edgellm.guides.schema.json_equality import exact, is_number, same
from edgellm.guides.spec import GuideSpec
from edgellm.text.json_values import type_name
from edgellm.text.utf8 import replace_surrogates

_BOUNDS: Mapping[str, Callable[[Fraction, Fraction], bool]] = {
    "minimum": ge,
    "maximum": le,
    "exclusiveMinimum": gt,
    "exclusiveMaximum": lt,
    "multipleOf": lambda value, divisor: value % divisor == 0,
}
_SIZES = {"Length": str, "Items": list, "Properties": Mapping}


def conforms(value: Any, schema: Any) -> bool:
    """Whether a value is valid. Raises GuideError for a schema with a keyword that no guide follows."""
    try:
        return _Check(Document(json.dumps(schema))).at((), value)
    except RecursionError:
        return False


class _Check:
    def __init__(self, document: Document) -> None:
        self._document = document

    def at(self, pointer: Pointer, value: Any) -> bool:
        """Whether a value is valid against the subschema at a place."""
        schema = self._document.at(pointer)
        if isinstance(schema, bool):
            return schema
        if "$ref" in schema and not self.at(self._document.target(pointer, schema["$ref"]), value):
            return False
        if not all(check(schema, value) for check in (_has_type, _is_listed, _has_size, _has_bounds, _has_form)):
            return False
        parts = (self._is_combined, self._has_properties, self._has_items)
        return all(check(pointer, schema, value) for check in parts)

    def _is_combined(self, pointer: Pointer, schema: Mapping[str, Any], value: Any) -> bool:
        def valid(key: str) -> int:
            return sum(self.at((*pointer, key, str(i)), value) for i in range(len(schema[key])))

        return (
            ("allOf" not in schema or valid("allOf") == len(schema["allOf"]))
            and ("anyOf" not in schema or valid("anyOf") > 0)
            and ("oneOf" not in schema or valid("oneOf") == 1)
        )

    def _has_properties(self, pointer: Pointer, schema: Mapping[str, Any], value: Any) -> bool:
        if not isinstance(value, Mapping):
            return True
        patterns, named = schema.get("patternProperties", {}), schema.get("properties", {})
        if not value.keys() >= {*schema.get("required", [])}:
            return False
        for name, each in value.items():
            places = [(*pointer, "properties", name)] if name in named else []
            places += [(*pointer, "patternProperties", p) for p in patterns if _has_form({"pattern": p}, name)]
            if not places and "additionalProperties" in schema:
                places = [(*pointer, "additionalProperties")]
            if not all(self.at(place, each) for place in places):
                return False
        return True

    def _has_items(self, pointer: Pointer, schema: Mapping[str, Any], value: Any) -> bool:
        if not isinstance(value, list):
            return True
        listed = isinstance(schema.get("items"), list)  # the form of earlier drafts
        first, rest = ("items", "additionalItems") if listed else ("prefixItems", "items")
        count = len(schema.get(first, []))
        if not all(self.at((*pointer, first, str(i)), each) for i, each in enumerate(value[:count])):
            return False
        return rest not in schema or all(self.at((*pointer, rest), each) for each in value[count:])


def _has_type(schema: Mapping[str, Any], value: Any) -> bool:
    types = schema.get("type", [])
    kind = type_name(value)
    whole = kind == "number" and float(value).is_integer()
    kinds = {kind, "integer"} if whole else {kind, "number"} if kind == "integer" else {kind}
    return not types or bool(kinds & {*([types] if isinstance(types, str) else types)})


def _is_listed(schema: Mapping[str, Any], value: Any) -> bool:
    if "const" in schema and not same(value, schema["const"]):
        return False
    return "enum" not in schema or any(same(value, each) for each in schema["enum"])


def _has_size(schema: Mapping[str, Any], value: Any) -> bool:
    for of, kind in _SIZES.items():
        if isinstance(value, kind):
            return schema.get(f"min{of}", 0) <= len(value) <= schema.get(f"max{of}", math.inf)
    return True


def _has_bounds(schema: Mapping[str, Any], value: Any) -> bool:
    bounds = _BOUNDS.keys() & schema.keys() if is_number(value) else ()
    return all(_BOUNDS[name](exact(value), exact(schema[name])) for name in bounds)


def _has_form(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a string has the pattern and the format that a schema names."""
    form = {key: schema[key] for key in ("pattern", "format") if key in schema}
    if not form or not isinstance(value, str):
        return True
    spec = GuideSpec("json_schema", json.dumps({"type": "string", **form}))
    return accepts(spec, json.dumps(replace_surrogates(value), ensure_ascii=False))
