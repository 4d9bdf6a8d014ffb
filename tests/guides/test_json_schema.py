"""JSON schemas as guides: what they allow is valid by the jsonschema package, what they do not follow is refused."""

import json
import random
from functools import reduce
from typing import Any

import jsonschema
import pytest

from edgellm.errors import GuideError
from support.guided_schemas import SCHEMAS
from support.guided_walk import Guides, write_json


def validator(schema: Any) -> Any:
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    return kind(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


@pytest.mark.parametrize("replies", [4, pytest.param(200, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("about", SCHEMAS)
def test_every_reply_is_valid(guides: Guides, about: str, replies: int) -> None:
    schema = SCHEMAS[about]
    valid = validator(schema)
    for seed in range(replies):
        guide = guides.new("json_schema", json.dumps(schema))
        text = guides.walk(guide, random.Random(seed))
        assert guide.complete, text
        value = json.loads(text)
        valid.validate(value)
        assert guides.accepts(guides.new("json_schema", json.dumps(schema)), text), "other tokens of the same text"


CASES: list[tuple[Any, list[Any], list[Any]]] = [
    # schema, valid values that a guide allows, invalid ones
    ({"type": "integer"}, [0, -7, 2**53 - 1], [1.5, "1", None, True]),
    ({"type": "number"}, [0, -7, 1.5], ["1", None, [], False]),
    ({"type": ["string", "null"]}, ["", None], [1, [], {}]),
    ({"minimum": 3}, [3, "x", None, [1], {"a": 1}], [2, 2.5, -1]),
    ({"exclusiveMinimum": 0, "maximum": 1}, [0.5, 1], [0, 1.5, -1]),
    ({"type": "number", "multipleOf": 0.01, "maximum": 5}, [0.01, 4.5, 5], [0.005, 1.234]),
    ({"type": "integer", "multipleOf": 4}, [0, 4, -12, 100], [2, 5, 102]),
    ({"minLength": 2, "maxLength": 3}, ["ab", "\u00e9\u00e9\u00e9", "😀😀", 1], ["", "a", "abcd"]),
    ({"pattern": "^a+$"}, ["aa", 5], ["", "b", "ab"]),
    (
        {"format": "date"},
        ["2024-02-29", "2000-02-29", "0001-01-01"],
        ["2023-02-29", "1900-02-29", "2024-13-01", "0000-01-01"],
    ),
    ({"format": "time"}, ["12:00:00Z", "23:59:59.5+23:59"], ["24:00:00Z", "12:00:00", "12:60:00Z"]),
    ({"format": "hostname"}, ["a.example", "x1-y"], ["-a", "a-", "a..b", "a_b", "a" * 64]),
    ({"format": "uri"}, ["http://127.0.0.1:80/a?b#c", "mailto:a@b"], ["//a/b", "a b", "http://a b"]),
    ({"format": "duration"}, ["P1DT2H", "P3W", "PT5S"], ["P", "PT", "P1D2H", "1D"]),
    ({"format": "int32", "type": "integer"}, [2**31 - 1, -(2**31)], [2**31]),
    ({"const": {"a": [1, {"b": None}]}}, [{"a": [1, {"b": None}]}], [{"a": [1]}, {}, None]),
    ({"enum": [1, "1", None]}, [1, "1", None], [True, "None", 2, [1]]),
    ({"enum": [5, "aaa", "b"], "type": "string", "maxLength": 2}, ["b"], [5, "aaa"]),
    ({"enum": [0, [False]]}, [0, [False]], [False, [0]]),
    ({"items": {"type": "null"}}, [[], [None], [None, None], "x"], [[1], [None, 1]]),
    ({"prefixItems": [{"type": "null"}, {"const": 1}]}, [[], [None], [None, 1], [None, 1, "x"]], [[1], [None, 2]]),
    ({"prefixItems": [True, False]}, [[], [1]], [[1, 2]]),
    ({"minItems": 1, "maxItems": 2, "type": "array"}, [[1], [1, 2]], [[], [1, 2, 3]]),
    ({"uniqueItems": False, "type": "array"}, [[1, 1]], [{}]),
    ({"uniqueItems": True, "maxItems": 1}, [[1], []], [[1, 2]]),
    (
        {"properties": {"a": {"type": "null"}}, "additionalProperties": True},
        [{}, {"a": None}, {"b": 1}, {"a": None, "b": 1}, 3],
        [{"a": 1}],
    ),
    ({"properties": {"a": False}, "additionalProperties": {}}, [{}, {"b": 1}], [{"a": 1}]),
    ({"required": ["a", "b"]}, [{"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, 3], [{}, {"a": 1}, {"b": 1}]),
    ({"additionalProperties": {"type": "null"}}, [{}, {"a": None, "b": None}], [{"a": 1}]),
    (
        {"properties": {"a\n": {"type": "null"}}, "additionalProperties": {"type": "integer"}},
        [{"a\n": None}, {"a": 1}],
        [{"a\n": 1}],
    ),
    (
        {
            "patternProperties": {"^x": {"type": "integer"}},
            "properties": {"xa": {"minimum": 3}},
            "additionalProperties": False,
        },
        [{"xa": 3}, {"xb": 1}, {"xa": 4, "xb": 2}],
        [{"xa": 2}, {"xa": "3"}, {"y": 1}, {"xb": None}],
    ),
    (
        {"allOf": [{"patternProperties": {"^x": {"type": "integer"}}}, {"additionalProperties": False}]},
        [{}],
        [{"xa": 1}, {"y": 1}],
    ),
    ({"minProperties": 1, "properties": {"a": True}, "additionalProperties": False}, [{"a": 1}], [{}]),
    ({"maxProperties": 1}, [{}, {"a": 1}], [{"a": 1, "b": 2}]),
    ({"anyOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5, 3], [1.5]),
    (
        {"anyOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]},
        [{"a": 1}, {"b": 2}],
        [{"a": 2, "b": 1}],
    ),
    ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, [1, "x"], [None, 1.5]),
    ({"allOf": [{"maximum": 30}, {"minimum": 20}], "multipleOf": 5}, [20, 25, 30], [15, 21, 35]),
    ({"$ref": "#/$defs/a", "minimum": 3, "$defs": {"a": {"type": "integer"}}}, [3], [2, 3.5]),
    ({"properties": {"a": {"$ref": "#"}}, "additionalProperties": False}, [{}, {"a": {"a": {}}}], [{"a": {"b": 1}}]),
    ({"type": "object", "properties": {"$ref": {"type": "string"}}}, [{"$ref": "x"}], [{"$ref": 1}]),
    (True, [1, "x", None, [], {"a": [True]}], []),
    ({"type": "array", "items": False}, [[]], [[1]]),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES)
def test_values_by_hand(guides: Guides, schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    """The cases of JSON-Schema-Test-Suite, in short; jsonschema knows the same values as valid."""
    check = validator(schema)
    assert [
        value for value in valid if not guides.accepts(guides.new("json_schema", json.dumps(schema)), write_json(value))
    ] == []
    assert [
        value for value in invalid if guides.accepts(guides.new("json_schema", json.dumps(schema)), write_json(value))
    ] == []
    known = {"hostname", "uri", "time", "duration"} if isinstance(schema, dict) else set()
    if not (isinstance(schema, dict) and schema.get("format") in known):  # needs packages of its own
        assert [value for value in valid if not check.is_valid(value)] == []
        assert [
            value for value in invalid if schema != {"format": "int32", "type": "integer"} and check.is_valid(value)
        ] == []


_A = {"properties": {"a": {"const": 1}}}
_B = {"properties": {"b": {"const": 2}}}
OBJECTS: list[tuple[Any, list[Any], list[Any]]] = [
    # schema, values that a guide allows, valid ones that it does not
    (_A, [{"a": 1}, {}, 3], [{"b": 2}, {"a": 1, "b": 2}]),
    ({"properties": {}}, [{}], [{"a": 1}]),
    ({"type": "object"}, [{}, {"a": 1}], []),
    ({**_A, "additionalProperties": True}, [{"a": 1, "b": 2}], []),
    ({**_A, "patternProperties": {"^x": True}}, [{"a": 1, "x": 2}, {"b": 3}], []),
    ({**_A, "required": ["a", "b"]}, [{"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}], []),
    ({**_A, "minProperties": 2, "required": ["a"]}, [{"a": 1, "b": 2}], []),
    ({**_A, "enum": [{"a": 1, "b": 2}]}, [{"a": 1, "b": 2}], []),
    ({"items": _A}, [[{"a": 1}]], [[{"b": 2}]]),
    ({"allOf": [_A]}, [{"a": 1}], [{"b": 2}]),
    ({"allOf": [_A, _B]}, [{"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}], []),
    ({"allOf": [_A], **_B}, [{"a": 1, "b": 2}, {"b": 2, "c": 3}], []),
    ({"allOf": [{"properties": {"x": _A}}, _B]}, [{"x": {"a": 1}, "b": 2, "c": 3}], [{"x": {"b": 2}}]),
    ({"anyOf": [_A, _B]}, [{"a": 1}, {"b": 2}], [{"c": 3}]),
    ({"anyOf": [_A, _B], "required": ["a"]}, [{"a": 1}, {"a": 1, "c": 3}, {"b": 2, "a": 5}], []),
    ({"$ref": "#/$defs/a", "$defs": {"a": _A}}, [{"a": 1}], [{"b": 2}]),
    ({"$ref": "#/$defs/a", "$defs": {"a": _A}, **_B}, [{"a": 1, "b": 2}, {"b": 2, "c": 3}], []),
    (
        {"properties": {"x": {"$ref": "#/$defs/a"}, "y": {"allOf": [{"$ref": "#/$defs/a"}, _B]}}, "$defs": {"a": _A}},
        [{"x": {"a": 1}, "y": {"a": 1, "b": 2, "c": 3}}],
        [{"x": {"c": 3}}],
    ),
]


@pytest.mark.parametrize(("schema", "allowed", "others"), OBJECTS)
def test_an_object_has_the_properties_that_its_schema_names(
    guides: Guides, schema: Any, allowed: list[Any], others: list[Any]
) -> None:
    """Others come where the schema says that they may, or where several subschemas say which there are."""
    new = guides.new
    assert all(validator(schema).is_valid(value) for value in (*allowed, *others))
    assert [
        each for each in allowed if not guides.accepts(new("json_schema", json.dumps(schema)), write_json(each))
    ] == []
    assert [each for each in others if guides.accepts(new("json_schema", json.dumps(schema)), write_json(each))] == []


_NAMED = (
    "not if contains dependentRequired dependentSchemas propertyNames unevaluatedItems unevaluatedProperties "
    "$dynamicRef minContains dependencies $recursiveRef"
)
REFUSED: list[tuple[Any, str]] = [
    *(
        ({"properties": {"a/b": {each: {}}}}, f"#/properties/a~1b/{each} is a keyword that no")
        for each in _NAMED.split()
    ),
    ({"type": "array", "uniqueItems": True}, "#/uniqueItems is a keyword that no guide"),
    ({"requierd": ["a"]}, "#/requierd is no keyword of JSON Schema: did you mean required?"),
    ({"items": {"foo": 1}}, "#/items/foo is no keyword of JSON Schema; leave it out"),
    (
        {"anyOf": [{"format": "regex"}]},
        "#/anyOf/0/format is a format that no guide can hold a reply to; there are date-time",
    ),
    ({"type": "string", "pattern": "a(?=b)"}, "#/pattern looks ahead"),
    ({"allOf": 5}, "#/allOf has a wrong value: give a list of schemas"),
    ({"minProperties": 1, "required": [[]]}, "#/required has a wrong value: give a list of texts"),
    ({"maxLength": 10**12}, "#/maxLength has a wrong value: give a whole number, from 0 to 2,147,483,647"),
    *(
        ({keyword: reference, "$defs": {"a": {name: 5}}}, f"#/$defs/a/{name} has a wrong value")
        for name in ("allOf", "type", "required", "properties")
        for keyword, reference in (("$ref", "#/$defs/a"), ("oneOf", [{"$ref": "#/$defs/a"}, {"type": "object"}]))
    ),
    ({"patternProperties": {f"^a{i}$": {} for i in range(101)}}, "#/patternProperties has more than 100 patterns"),
    (
        {"items": {"allOf": [{"pattern": f"a{i}.*b{i}"} for i in range(30)]}},
        "#/items has more than 10 patterns for one text; join them",
    ),
    (
        {"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$", "minLength": 100, "maxLength": 1000},
        "a pattern, with the lengths and patterns beside it, is too complex",
    ),
    ({"oneOf": [{"const": i} for i in range(1001)]}, "#/oneOf has more than 1,000 schemas; use anyOf"),
    ({"patternProperties": {"(": {}}}, "#/patternProperties/( has a ( without a ) at character 1"),
    ({"patternProperties": {"a": {}, "b": {}}}, "two patterns of patternProperties match the same name"),
    ({"$ref": "other.json#/a"}, "#/$ref is not a reference within the schema"),
    ({"$ref": "#anchor"}, "#/$ref is not a reference within the schema"),
    ({"$ref": "#/$defs/none"}, "#/$ref names #/$defs/none, which the schema does not have"),
    ({"$ref": "#"}, "#/$ref leads back to itself; let it name another part"),
    ({"properties": {"a": {"$ref": "#/properties/a"}}}, "#/properties/a/$ref leads back to itself"),
    ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}, "#/$defs/a/allOf/0/$ref leads back to"),
    ({"anyOf": [{"$ref": "#"}]}, "allows no value of finite size"),
    (reduce(lambda inner, _: {"properties": {"a": inner}}, range(80), {}), "more than 127 levels of brackets"),
    ({"items": {"$id": "x"}}, "#/items/$id gives a part of the schema a name of its own"),
    (
        {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
        "#/oneOf may allow a value that is valid twice, by #/oneOf/0 and",
    ),
    ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "#/oneOf may allow a value that is valid twice"),
    ({"minProperties": 3, "properties": {"a": True}}, "#/minProperties is more than required has names for"),
    ({"maxProperties": 2, "properties": {"a": True}}, "properties of which all are required"),
    ({"exclusiveMinimum": 0.1234567890123456}, "#/exclusiveMinimum excludes a number of more than 15 digits"),
    ({"minimum": 2**53}, "#/minimum has a number beyond 9,007,199,254,740,991"),
    ({"enum": [1, {"a": [2**60]}]}, "#/enum/1/a/0 has a number beyond 9,007,199,254,740,991"),
    ({"multipleOf": 0.07}, "#/multipleOf is no number above 0 of few digits"),
    ({"const": "\u0001"}, "#/const has a control character that replies do not contain"),
    (False, "# is valid for no value"),
    ({"enum": []}, "#/enum is empty: give a list of values"),
    ({"enum": [1], "type": "string"}, "Unsatisfiable schema: incompatible types"),
    ({"type": "integer", "minimum": 2, "maximum": 1}, "Unsatisfiable schema: minimum (2) is greater than maximum (1)"),
    ({"type": "string", "allOf": [{"pattern": "^a+$"}, {"pattern": "^b+$"}]}, "Unsatisfiable schema: Regex is empty"),
    ({"type": "object", "required": ["a"], "properties": {"a": False}}, "required property 'a' is unsatisfiable"),
    ({"type": "object", "required": ["a", "b"], "maxProperties": 1}, "Unsatisfiable schema: required > maxProperties"),
    ({"type": "array", "minItems": 2, "maxItems": 1}, "minItems (2) is greater than maxItems (1)"),
    ({"type": "text"}, "#/type is not one of the types, which are null, boolean,"),
    ({"type": 3}, "#/type has a wrong value: give a type or a list of types"),
    ({"properties": []}, "#/properties has a wrong value: give an object of schemas"),
    ({"items": 3}, "#/items is no schema: give an object, true or false"),
    ({"minimum": "3"}, "#/minimum has a wrong value: give a number"),
    ({"exclusiveMinimum": True}, "#/exclusiveMinimum has a wrong value: give a number"),
    ({"maxLength": -1}, "#/maxLength has a wrong value: give a whole number, from 0 to"),
    ({"maxItems": 1.5}, "#/maxItems has a wrong value: give a whole number, from 0 to"),
    ({"multipleOf": 0}, "#/multipleOf is no number above 0 of few digits"),
    ({"required": "a"}, "#/required has a wrong value: give a list of texts"),
    ({"required": [1]}, "#/required has a wrong value: give a list of texts"),
    ({"anyOf": []}, "#/anyOf is empty: give a list of schemas"),
    ({"items": True, "additionalItems": False}, "#/additionalItems says nothing, as items is no list"),
]


@pytest.mark.parametrize(("schema", "problem"), REFUSED)
def test_what_is_not_followed_is_refused_with_its_place(guides: Guides, schema: Any, problem: str) -> None:
    with pytest.raises(GuideError) as caught:
        guides.new("json_schema", json.dumps(schema))
    message = str(caught.value)
    assert message.startswith("option json_schema: ")
    assert problem in message
    assert "\n" not in message


def test_schemas_that_share_their_parts_are_read_once(guides: Guides) -> None:
    """Each of 60 definitions names the next one twice: there are 2**60 ways through them."""
    defined: dict[str, Any] = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(60)}
    defined["a60"] = {"type": "boolean"}
    schema = {"oneOf": [{"$ref": "#/$defs/a0"}, {"type": "null"}], "$defs": defined}
    guide = guides.new("json_schema", json.dumps(schema))
    assert guides.accepts(guide, "true")


def test_limits_of_size_are_errors(guides: Guides) -> None:
    deep: Any = {"type": "null"}
    for _ in range(400):
        deep = {"anyOf": [deep, {"const": 1}]}
    wide = {
        "allOf": [{"anyOf": [{"type": "object", "properties": {f"{i}{j}": True}} for j in range(9)]} for i in range(9)]
    }
    with pytest.raises(GuideError, match=r"too many levels|too large|exceeded"):
        guides.new("json_schema", json.dumps(deep))
    with pytest.raises(GuideError, match="schema too large"):
        guides.new("json_schema", json.dumps(wide))


def test_integers_without_bounds_are_those_that_programs_agree_on(guides: Guides) -> None:
    """So a model that repeats a digit comes to an end (RFC 8259, section 6)."""
    for schema in ({"type": "integer"}, {"type": "integer", "multipleOf": 1, "minimum": 0}):
        assert guides.accepts(guides.new("json_schema", json.dumps(schema)), str(2**53 - 1))
        assert not guides.accepts(guides.new("json_schema", json.dumps(schema)), str(2**53))


def test_large_counts_cost_nothing(guides: Guides) -> None:
    schema = {"type": "array", "items": {"type": "string", "maxLength": 100_000}, "minItems": 2, "maxItems": 1_000_000}
    guide = guides.new("json_schema", json.dumps(schema))
    assert guides.accepts(guide, '["a", "b", "c"]')


def test_json_is_written_in_one_way(guides: Guides) -> None:
    """As json.dumps writes it: one space behind commas and colons, and one spelling of each character."""
    for text in (
        '{"a":1}',
        '{ "a": 1}',
        '{"a": 1,"b": 2}',
        '{"\\u0061": 1}',
        '"\\/"',
        '"\\u000a"',
        '"\\ud800"',
        '"\n"',
        " 1",
        "1 ",
    ):
        assert not guides.accepts(guides.new("json_schema", "true"), text), text
    for value in ({"a": 1, "b": [1, 2]}, '"\\\n\t', ["é😀\u2028"]):
        assert guides.accepts(guides.new("json_schema", "true"), write_json(value))
