"""Definitions of tools from functions: annotations give the schema, the docstring gives the descriptions."""

import inspect
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.tools.docstrings import FunctionDoc, describe_function
from edgellm.tools.type_schemas import UnknownTypeError, type_schema

_CHOICES = re.compile(r"\s*\(choices:\s*(?P<values>.*?)\)\s*$", re.IGNORECASE)


def definition_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The OpenAI definition of a function, as `transformers.utils.get_json_schema` gives it.

    Descriptions may be missing. Raises OptionError, which names function and parameter, for a function that arguments
    by name cannot be given to, and for an annotation without a schema.
    """
    name = getattr(function, "__name__", None) or type(function).__name__
    described, hints = describe_function(function), _hints(function, name)
    parameters = _parameters(function, name, hints, described)
    made = {"name": name, "description": described.text, "parameters": parameters}
    if "return" in hints:
        with suppress(UnknownTypeError):  # no model writes a result: one without a schema is left out
            said = {"description": described.result} if described.result else {}
            made["return"] = type_schema(hints["return"]) | said
    return {"type": "function", "function": made}


def _parameters(
    function: Callable[..., Any], name: str, hints: dict[str, Any], described: FunctionDoc
) -> dict[str, Any]:
    properties, required = dict[str, Any](), list[str]()
    for parameter in _signature(function, name).parameters.values():
        key = parameter.name
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise OptionError(f"tool {name}: {parameter} is no argument with a name; give it one, or wrap the function")
        if key not in hints:
            raise OptionError(f"tool {name}: argument {key} has no type; annotate it, such as `{key}: str`")
        properties[key] = _property(name, key, hints[key], described.parameters.get(key, ""))
        if parameter.default is parameter.empty:
            required.append(key)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | {"required": required} if required else schema


def _signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # of some classes and functions in C
        raise OptionError(f"tool {name}: Python does not know its arguments; wrap it in a function") from None


def _property(name: str, key: str, hint: Any, description: str) -> dict[str, Any]:
    try:
        schema = type_schema(hint)
    except UnknownTypeError as error:
        known = "text, numbers, bool, lists, dicts, Literal, Enum, dataclasses, TypedDict and models of pydantic"
        problem = f"argument {key} has the type {printable(str(error))}, which has no JSON; take {known}"
        raise OptionError(f"tool {name}: {problem}") from None
    if not description and get_origin(hint) is Annotated:
        description = next((each for each in get_args(hint)[1:] if isinstance(each, str)), "")
    if found := _CHOICES.search(description):
        schema["enum"], description = _choices(name, key, found["values"]), description[: found.start()].strip()
    return schema | {"description": description} if description else schema


def _choices(name: str, key: str, values: str) -> list[Any]:
    with suppress(ValueError):
        if isinstance(found := json.loads(values), list) and found:
            return [each.strip() if isinstance(each, str) else each for each in found]
    raise OptionError(f'tool {name}: the choices of {key} are no JSON list; write (choices: ["a", "b"])')


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    target = function if hasattr(function, "__annotations__") else type(function).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except Exception as error:  # annotations are code of the caller
        raise OptionError(f"tool {name}: its annotations cannot be read ({printable(str(error))})") from None
