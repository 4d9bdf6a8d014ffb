"""Arguments of a call as what a function's annotations name: an Enum for its value, a dataclass for an object."""

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from inspect import isclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from edgellm.errors import OptionError
from edgellm.fmt import printable

_COLLECTIONS = (tuple, set, frozenset)


def python_arguments(function: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for a function. Raises OptionError for names and values that it does not take."""
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise OptionError(f"tool {name}: {printable(str(error))}") from None
    target = function if hasattr(function, "__annotations__") else type(function).__call__
    hints = get_type_hints(target, include_extras=True)
    converted = dict[str, Any]()
    for key, value in arguments.items():
        try:
            converted[key] = _converted(value, hints.get(key))
        except (KeyError, TypeError, ValueError) as error:
            problem = printable(str(error), 200)
            raise OptionError(f"tool {name}: argument {key} has a value that it does not take: {problem}") from None
    return converted


def _converted(value: Any, hint: Any) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _converted(value, args[0])
    if origin in (Union, types.UnionType):
        return _first_converted(value, args)
    if isclass(origin) and isinstance(value, list):
        return _collection(value, origin, args)
    if isclass(origin) and isinstance(value, dict) and len(args) == 2:
        return {key: _converted(item, args[1]) for key, item in value.items()}
    if isclass(hint) and issubclass(hint, Enum):
        return hint(value)
    if hint in _COLLECTIONS and isinstance(value, list):
        return hint(value)
    if is_dataclass(hint) and isclass(hint) and isinstance(value, dict):
        hints = get_type_hints(hint, include_extras=True)
        return hint(**{key: _converted(item, hints.get(key)) for key, item in value.items()})
    if callable(validate := getattr(hint, "model_validate", None)):  # a model of pydantic
        return validate(value)
    return value


def _first_converted(value: Any, hints: tuple[Any, ...]) -> Any:
    """The value as the first member of a union that changes it, or as it is. Raises if no member takes it."""
    if value is None and type(None) in hints:
        return None
    problem, fits = ValueError("no type of its union fits"), False
    for hint in hints:
        try:
            converted = _converted(value, hint)
        except (KeyError, TypeError, ValueError) as error:
            problem = ValueError(str(error))
        else:
            if converted is not value:
                return converted
            fits = fits or hint is not type(None)
    if not fits:
        raise problem
    return value


def _collection(value: list[Any], origin: type, args: tuple[Any, ...]) -> Any:
    fixed = origin is tuple and args[1:] != (...,)
    hints = args if fixed and len(args) == len(value) else args[:1] * len(value)
    items = [_converted(item, hint) for item, hint in zip(value, hints, strict=True)]
    return origin(items) if origin in _COLLECTIONS else items
