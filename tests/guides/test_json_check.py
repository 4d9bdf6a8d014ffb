"""Whether values are valid against schemas: the same as jsonschema says."""

import json
from random import Random
from typing import Any

import pytest

from edgellm import EdgeLLMError
from edgellm.guides.schema.json_check import conforms
from edgellm.guides.schema.json_equality import json_of, same
from support.guided_schemas import SCHEMAS

jsonschema = pytest.importorskip("jsonschema")

VALUES: list[Any] = [
    None, True, False, 0, 1, 2, 7, -1, 3.0, 2.5, 0.1, 0.30000000000000004, 1e300, 10**30, "", "a", "ab", "日本", "red",
    "2026-05-04", [], [1], [1, 2], [1, 2, 2], ["a"], ["a", "b"], [[1]], {}, {"a": 1}, {"a": True}, {"b": None},
    {"a": "x", "b": False}, {"kind": "x", "x": 1}, {"value": 1, "next": None}, {"name": "Ann", "age": 33},
]  # fmt: skip
BOUNDS: dict[str, Any] = {
    "minimum": {"minimum": 1},
    "maximum": {"maximum": 2.5},
    "exclusive": {"exclusiveMinimum": 0, "exclusiveMaximum": 3},
    "multiple": {"type": "number", "multipleOf": 0.5},
    "integer": {"type": "integer"},
    "number or null": {"type": ["number", "null"]},
    "properties": {"minProperties": 1, "maxProperties": 1},
    "patterns": {"patternProperties": {"^[ab]$": {"type": "integer"}}, "additionalProperties": False},
    "true": True,
    "false": {"items": False},
    "one of": {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
    "const and enum": {"const": 1, "enum": [1, 2]},
    "enum without const": {"const": 7, "enum": [1, 2]},
    "all of": {"allOf": [{"minimum": 1}, {"maximum": 2}]},
    "pattern": {"pattern": "^[a-z]+$"},
}


def is_valid(value: Any, schema: Any) -> bool:
    kind = jsonschema.Draft7Validator if isinstance(schema, dict) and "$schema" in schema else None
    validator = (kind or jsonschema.Draft202012Validator)(schema)
    return bool(validator.is_valid(value))


def varied(value: Any, random: Random) -> Any:
    """The value with one part of it changed."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        key = random.choice([*value])
        change = random.randrange(3)
        if change == 0:
            return {name: each for name, each in value.items() if name != key}
        return {**value, (key if change == 1 else f"{key}x"): varied(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        return [*value[:at], varied(value[at], random), *value[at + random.randrange(2) :]]
    return random.choice(VALUES)


def examples(schema: Any, random: Random) -> list[Any]:
    """Values that are in a schema, and variants of them."""
    found = [*VALUES]

    def collect(part: Any) -> None:
        if isinstance(part, dict):
            found.extend(part.get("enum", []))
            found.extend([part["const"]] if "const" in part else [])
            if isinstance(properties := part.get("properties"), dict):
                found.append({name: random.choice(VALUES) for name in properties})
            for each in part.values():
                collect(each)
        elif isinstance(part, list):
            for each in part:
                collect(each)

    collect(schema)
    return [*found, *(varied(random.choice(found), random) for _ in range(200))]


CHECKED = {name: schema for name, schema in {**SCHEMAS, **BOUNDS}.items() if '"format"' not in json.dumps(schema)}
"""Formats are those of guides; jsonschema checks few of them."""


@pytest.mark.parametrize("name", [*CHECKED])
def test_values_are_valid_as_jsonschema_says(name: str) -> None:
    schema = CHECKED[name]
    for value in examples(schema, Random(name)):
        assert conforms(value, schema) == is_valid(value, schema), value


def test_what_a_guide_accepts_differs_from_what_is_valid_in_both_ways() -> None:
    """An oracle that says one thing about all values would prove nothing."""
    said = [is_valid(value, BOUNDS[name]) for name in BOUNDS for value in VALUES]
    assert 0.2 < sum(said) / len(said) < 0.8


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"format": "date"}, "2024-02-29", "2023-02-29"),
        ({"format": "time"}, "09:30:00Z", "9:30"),
        ({"format": "uuid"}, "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
        ({"pattern": "^[0-9]{2}:[0-9]{2}$"}, "09:30", "9:30"),
        ({"pattern": "b"}, "abc", "ac"),
        ({"pattern": "^\\d+$"}, "12", "١٢"),
    ],
)
def test_forms_of_strings(schema: Any, valid: str, invalid: str) -> None:
    assert conforms(valid, schema) and not conforms(invalid, schema)
    assert conforms(12, schema)


def test_a_list_in_the_form_of_earlier_drafts() -> None:
    schema = {"items": [{"type": "integer"}], "additionalItems": {"type": "string"}}
    assert conforms([1, "a"], schema) and conforms([], schema)
    assert not conforms([1, 2], schema) and not conforms(["a"], schema)


def test_a_keyword_that_no_guide_follows() -> None:
    with pytest.raises(EdgeLLMError, match="#/not is a keyword that no guide can hold a reply to"):
        conforms(1, {"not": {}})


def test_a_value_of_many_levels() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    assert not conforms(value, {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}})
    while isinstance(value, list):  # freed level by level: Python's own way would need a deep stack
        (value,) = value


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "1e999", "{", "", "1 2", "[" * 100_000, "'a'"])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_of(text)


def test_equal_values() -> None:
    assert same(1, 1.0) and same([{"a": 1}], [{"a": 1.0}]) and same(None, None) and same("a", "a")
    assert not same(True, 1) and not same(0, False) and not same("1", 1) and not same([1], [1, 1])
    assert not same({"a": 1}, {"b": 1}) and not same(None, False) and not same(2**53 + 1, float(2**53))
