"""Tools from OpenAI definitions: taken as they are, faults named in one line."""

import json
import re
from typing import Any

import pytest

from edgellm.errors import OptionError
from edgellm.tools.schemas import guided_parameters
from edgellm.tools.tool import tool_of, tools_of

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Wetter", "parameters": PARAMETERS}}


def test_definitions_are_taken_as_they_are() -> None:
    tool = tool_of(WEATHER)
    assert tool.definition == WEATHER and tool.definition is not WEATHER
    assert (tool.name, tool.description, tool.parameters) == ("weather", "Wetter", PARAMETERS)
    assert tool_of(WEATHER["function"]).definition == WEATHER
    assert tool_of({"type": "function", **WEATHER["function"]}).definition == WEATHER  # type: ignore[dict-item]
    bare = tool_of({"type": "function", "function": {"name": "clock", "strict": True}})
    assert bare.description == "" and bare.parameters == {"type": "object", "properties": {}}
    with pytest.raises(OptionError, match="tool weather has no function to run"):
        tool.run({"city": "Rome"})


def test_tools_have_names_of_their_own() -> None:
    def clock() -> str:
        """Tell the time."""
        return "12"

    assert list(tools_of([WEATHER, clock])) == ["weather", "clock"]
    with pytest.raises(OptionError, match="two tools have the name clock"):
        tools_of([clock, {"name": "clock"}])
    for given in (WEATHER, "weather", None):
        with pytest.raises(OptionError, match=r"tools is a value of type .*; give a list"):
            tools_of(given)  # type: ignore[arg-type]


def function(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f"} | fields}


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({}, "a tool has no name"),
        ({"type": "web_search"}, "a tool has the type 'web_search'"),
        ({"type": "function", "function": "f"}, "a tool has no name"),
        (function(name="a b"), "the tool name 'a b' is not valid"),
        (function(name=""), "the tool name '' is not valid"),
        (function(name="x\n" * 99), r"the tool name .x\\nx"),
        (function(description=1), "tool f: description is no text"),
        (function(parameters=[]), "tool f: parameters is no JSON schema"),
        (function(parameters={"type": "array"}), "tool f: parameters has the type 'array'"),
        (function(parameters={"properties": []}), "tool f: parameters.properties is no object"),
        (function(parameters={"properties": {"a": "string"}}), "tool f: parameters.properties.a is no JSON schema"),
        (function(parameters={"required": "a"}), "tool f: parameters.required is no list of names"),
        (function(parameters={"default": {1, 2}}), "tools has a value of type set"),
        (function(parameters={"$defs": 5}), r"tool f: parameters\.\$defs is no object"),
        *(
            (function(parameters={"items": [{"properties": {"a": {key: 5}}}]}), f"properties.a.{re.escape(key)} is no ")
            for key in ("type", "enum", "anyOf", "properties", "required", "$ref", "items", "patternProperties")
        ),
        (function(parameters={"properties": {"a": {"maxLength": "9}|x{1"}}}), "a.maxLength is no whole number"),
        (function(parameters={"properties": {"a": {"minItems": True}}}), "a.minItems is no whole number"),
        (function(parameters={"properties": {"a": {"type": ["string", {}]}}}), "a.type is no type"),
        (function(parameters=json.loads('{"not": ' * 99 + "true" + "}" * 99)), "is more than 64 levels deep"),
    ],
)
def test_faults_are_named_in_one_line(definition: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said) as error:
        tool_of(definition)
    assert "\n" not in str(error.value)


def test_guides_get_what_a_schema_means() -> None:
    inner = {"type": "integer", "nullable": True, "x-guidance": {"lenient": True}, "description": "d"}
    properties = {"nullable": inner, "all": {"anyOf": [inner], "enum": [{"nullable": True}]}, "any": True}
    tool = tool_of(function(parameters={"properties": properties, "x-guidance": {}, "$defs": {"x": inner}}))
    meant = {"anyOf": [{"type": "integer", "description": "d"}, {"type": "null"}]}
    assert guided_parameters(tool) == {
        "type": "object",
        "properties": {"nullable": meant, "all": {"anyOf": [meant], "enum": [{"nullable": True}]}, "any": True},
        "$defs": {"x": meant},
        "additionalProperties": False,
    }
    assert tool.parameters["properties"] == json.loads(json.dumps(properties))


@pytest.mark.parametrize("more", [{"additionalProperties": True}, {"patternProperties": {"^x": {}}}])
def test_further_arguments_are_allowed_where_a_schema_says_so(more: dict[str, Any]) -> None:
    schema = guided_parameters(tool_of(function(parameters={"type": "object", "properties": {"a": {}}, **more})))
    assert schema.get("additionalProperties") is more.get("additionalProperties")
    assert "additionalProperties" not in guided_parameters(tool_of(function(parameters={"type": "object"})))
