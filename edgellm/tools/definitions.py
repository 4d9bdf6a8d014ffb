"""Definitions of tools as OpenAI's API has them, checked. (https://platform.openai.com/docs/guides/function-calling)"""

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.text.json_values import json_value
from edgellm.tools.schema_parts import faults

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""Names of tools. OpenAI's have no dot and up to 64 characters; those of MCP servers have both."""


def checked_definition(given: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a definition. One without the outer `{"type": "function", …}` gets it.

    Raises OptionError, which names the tool and the field, for the first fault.
    """
    definition = json_value(given, "tools")
    if (kind := definition.get("type", "function")) != "function":
        raise OptionError(f'a tool has the type {_shown(kind)}; give one of the type "function"')
    if "function" not in definition:
        function = {key: value for key, value in definition.items() if key != "type"}
        definition = {"type": "function", "function": function}
    _check_name(definition["function"])
    _check_function(definition["function"])
    return dict(definition)


def _check_name(function: Any) -> None:
    if not isinstance(function, dict) or "name" not in function:
        raise OptionError('a tool has no name; give {"type": "function", "function": {"name": …, "parameters": …}}')
    if not isinstance(function["name"], str) or not NAME.fullmatch(function["name"]):
        raise OptionError(f"the tool name {_shown(function['name'])} is not valid; give 1 to 128 of A-Z a-z 0-9 _ . -")


def _check_function(function: Mapping[str, Any]) -> None:
    name = function["name"]
    if not isinstance(function.get("description") or "", str):
        _fail(name, "description", "is no text")
    parameters = {} if function.get("parameters") is None else function["parameters"]
    if not isinstance(parameters, dict):
        _fail(name, "parameters", "is no JSON schema")
    if (kind := parameters.get("type", "object")) != "object":
        _fail(name, "parameters", f"has the type {_shown(kind)}")
    for place, problem in faults(parameters, "parameters"):
        _fail(name, place, problem)


def _fail(name: str, field: str, problem: str) -> NoReturn:
    raise OptionError(f'tool {name}: {printable(field)} {problem}; parameters is a JSON schema of the type "object"')


def _shown(value: object) -> str:
    return printable(repr(value), 60)
