"""JSON schemas that guides follow: what people write, and every keyword that is followed, nested in each other."""

from typing import Any

Schema = Any

_NODE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["value", "next"],
    "additionalProperties": False,
}
_SHORT = {"type": "string", "maxLength": 4}


def _object(required: list[str] | None = None, /, **properties: Schema) -> Schema:
    names = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


SCHEMAS: dict[str, Schema] = {
    "person": _object(name=_SHORT, age={"type": "integer", "minimum": 0, "maximum": 150}),
    "optional": _object(["b"], a=_SHORT, b={"type": "boolean"}, c={"type": "null"}),
    "all optional": _object([], a={"type": "null"}, b={"type": "boolean"}),
    "nested": _object(a=_object(b=_object(c={"const": {"d": [1, "x", None]}}))),
    "list": {"type": "array", "items": {"type": "integer", "minimum": -5, "maximum": 5}, "maxItems": 4},
    "tuple": {"type": "array", "prefixItems": [_SHORT, {"type": "number"}], "items": False, "minItems": 2},
    "tuple and more": {"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}, "maxItems": 3},
    "items of draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"const": "a"}, {"const": "b"}],
        "additionalItems": False,
    },
    "at least two": {"type": "array", "items": {"enum": [0, 1]}, "minItems": 2, "maxItems": 3},
    "enum": {"enum": ["red", 'gr"ün', 7, 2.5, None, True, {"a": [1]}, ["x"], "\n", "日本"]},
    "enum of a type": {"type": ["string", "null"], "enum": ["a", 1, None, {}]},
    "const": {"const": {"k\n": '\t\\"é'}},
    "types": {"type": ["boolean", "null", "integer"], "minimum": 3, "maximum": 12},
    "any of": {"anyOf": [_object(a={"type": "boolean"}), _object(b={"type": "null"}), {"const": "neither"}]},
    "any of and properties": {
        "type": "object",
        "properties": {"kind": {"enum": ["x", "y"]}, "x": {"type": "integer"}, "y": {"type": "boolean"}},
        "anyOf": [
            {"properties": {"kind": {"const": "x"}}, "required": ["x"]},
            {"properties": {"kind": {"const": "y"}}, "required": ["y"]},
        ],
        "required": ["kind"],
        "additionalProperties": False,
    },
    "one of by a tag": {
        "oneOf": [
            _object(type={"const": "circle"}, radius={"type": "number", "minimum": 0, "maximum": 9.5}),
            _object(type={"const": "square"}, side={"type": "integer", "minimum": 1, "maximum": 9}),
        ]
    },
    "one of references": {
        "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
        "$defs": {"a": _object(t={"const": 1}), "b": _object(t={"const": 2})},
    },
    "one of types": {
        "oneOf": [{"type": "integer", "minimum": 0}, {"type": "string", "maxLength": 2}, {"type": "null"}]
    },
    "all of": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]},
            {"properties": {"a": {"maximum": 5}, "b": {"type": "boolean"}}, "additionalProperties": {"type": "null"}},
        ],
    },
    "reference with siblings": {
        "$ref": "#/$defs/text",
        "maxLength": 3,
        "$defs": {"text": {"type": "string", "minLength": 2, "pattern": "^[a-f]+$"}},
    },
    "list by reference": {"$ref": "#/$defs/node", "$defs": {"node": _NODE}},
    "tree": {
        "type": "object",
        "properties": {"v": {"type": "boolean"}, "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}},
        "required": ["v"],
        "additionalProperties": False,
    },
    "reference to a place": {
        "type": "array",
        "prefixItems": [{"enum": ["~", "/"]}, {"$ref": "#/prefixItems/0"}, {"$ref": "#/$defs/a~1b%20c"}],
        "items": False,
        "minItems": 3,
        "$defs": {"a/b c": {"type": "boolean"}},
    },
    "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
    "map with a name": {
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "additionalProperties": {"type": "boolean"},
    },
    "patterns of names": {
        "type": "object",
        "properties": {"n_1": {"minimum": 5, "maximum": 9}},
        "patternProperties": {"^n_[0-9]$": {"type": "integer"}, "^s_[a-z]$": _SHORT},
        "additionalProperties": False,
    },
    "two and no more": {**_object(a={"const": 1}, b={"const": 2}), "minProperties": 2, "maxProperties": 2},
    "control characters": {
        "type": "array",
        "items": {"type": "string", "pattern": "^[\\x00-\\x1f]{1,2}$"},
        "maxItems": 3,
    },
    "at least one": {"type": "object", "additionalProperties": {"const": 0}, "minProperties": 1, "maxProperties": 2},
    "required without a schema": {
        "type": "object",
        "required": ["x"],
        "additionalProperties": {"type": "boolean"},
        "maxProperties": 2,
    },
    "integers": {
        "type": "array",
        "items": {"type": "integer", "minimum": -123, "exclusiveMaximum": 4567},
        "maxItems": 5,
    },
    "numbers": {"type": "array", "items": {"type": "number", "minimum": -1.5, "maximum": 22.25}, "maxItems": 5},
    "numbers without bounds": {"type": "array", "items": {"type": "number"}, "maxItems": 4},
    "numbers above": {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}, "maxItems": 4},
    "numbers between": {
        "type": "array",
        "items": {"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.35},
        "maxItems": 4,
    },
    "numbers below": {"type": "array", "items": {"type": "number", "exclusiveMaximum": -0.5}, "maxItems": 4},
    "multiples": {"type": "array", "items": {"type": "integer", "multipleOf": 5}, "maxItems": 4},
    "multiples of an odd number": {"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 99},
    "multiples of a half": {"type": "array", "items": {"type": "number", "multipleOf": 0.5}, "maxItems": 4},
    "strings by length": {"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 5}, "maxItems": 3},
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-\\d{3}( [\\w.]+)?$", "maxLength": 12},
    "pattern anywhere": {"type": "string", "pattern": "a[^a]|^b|c$", "maxLength": 6},
    "pattern of unicode": {"type": "string", "pattern": "^[äöü\\u4e00-\\u4e0f😀]+\\s?$", "maxLength": 5},
    "pattern of escapes": {"type": "string", "pattern": '^["\\\\/\\n\\x00-\\x1f]{1,4}$'},
    "date": {"type": "string", "format": "date"},
    "date and time": {"type": "string", "format": "date-time"},
    "time and duration": {
        "type": "array",
        "prefixItems": [{"format": "time", "type": "string"}, {"format": "duration", "type": "string"}],
        "minItems": 2,
        "items": False,
    },
    "addresses": _object(
        mail={"type": "string", "format": "email", "maxLength": 30},
        host={"type": "string", "format": "hostname", "maxLength": 20},
    ),
    "numbers of hosts": _object(v4={"type": "string", "format": "ipv4"}, v6={"type": "string", "format": "ipv6"}),
    "ids": _object(id={"type": "string", "format": "uuid"}, at={"type": "string", "format": "uri", "maxLength": 30}),
    "integers by format": {"type": "array", "items": {"type": "integer", "format": "int32"}, "maxItems": 3},
    "anything": True,
    "annotations": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/s",
        "title": "T",
        "description": "D",
        "default": 3,
        "examples": [1],
        "deprecated": True,
        "x-order": 1,
        "type": "integer",
        "minimum": 0,
        "maximum": 3,
    },
    "nothing but a type": {
        "type": "object",
        "maxProperties": 1,
        "additionalProperties": {"type": "array", "maxItems": 1, "items": {"type": "boolean"}},
    },
}
"""Schemas by what they are about."""
