"""JSON schemas of Python's type annotations.

Where `transformers.utils.get_json_schema` gives a schema this gives the same one, `nullable` included, since models
learned from such definitions.
"""

import types
from collections import abc
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from inspect import isclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

BASIC: Mapping[Any, Mapping[str, Any]] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array"},
    frozenset: {"type": "array"},
    dict: {"type": "object"},
    Any: {},
    object: {},
}
_LISTS = (list, set, frozenset, abc.Sequence, abc.Iterable, abc.Collection, abc.Set)
_OBJECTS = (dict, abc.Mapping, abc.MutableMapping)
_SCALARS = (int, str, bool, float, type(None))


class UnknownTypeError(Exception):
    """An annotation has no schema. The text names the annotation."""


def type_schema(hint: Any) -> dict[str, Any]:
    """The schema of an annotation. Raises UnknownTypeError for one that JSON has no values of."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return type_schema(args[0])
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is Literal:
        return _choices(hint, args)
    if origin is tuple:
        return _tuple(hint, args)
    if origin in _LISTS:
        return {"type": "array", "items": type_schema(args[0])}
    if origin in _OBJECTS:
        return {"type": "object", "additionalProperties": type_schema(args[1])}
    return _plain(hint)


def _plain(hint: Any) -> dict[str, Any]:
    if hint in _LISTS or hint in _OBJECTS:
        return {"type": "array" if hint in _LISTS else "object"}
    try:
        if hint in BASIC:
            return dict(BASIC[hint])
    except TypeError:
        raise UnknownTypeError(str(hint)) from None
    if isclass(hint) and issubclass(hint, Enum):
        return _choices(hint, [member.value for member in hint])
    if is_typeddict(hint):
        hints = get_type_hints(hint)
        return _object(hints, [name for name in hints if name in hint.__required_keys__])
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        needed = [each.name for each in fields(hint) if each.default is MISSING and each.default_factory is MISSING]
        return _object({each.name: hints[each.name] for each in fields(hint) if each.init}, needed)
    if callable(schema := getattr(hint, "model_json_schema", None)):  # a model of pydantic
        return _inlined(schema())
    raise UnknownTypeError(getattr(hint, "__name__", None) or str(hint))


def _union(args: tuple[Any, ...]) -> dict[str, Any]:
    schemas = [type_schema(each) for each in args if each is not type(None)]
    if len(schemas) == 1:
        schema = schemas[0]
    elif all(each.keys() == {"type"} and isinstance(each["type"], str) for each in schemas):
        kinds = sorted({each["type"] for each in schemas})
        schema = {"type": kinds[0] if len(kinds) == 1 else kinds}
    else:
        schema = {"anyOf": schemas}
    return schema | {"nullable": True} if type(None) in args else schema


def _choices(hint: Any, values: Any) -> dict[str, Any]:
    if not values or any(type(value) not in _SCALARS for value in values):
        raise UnknownTypeError(str(hint))
    kinds = list(dict.fromkeys(BASIC[type(value)]["type"] for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(values)}


def _tuple(hint: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    if len(args) == 2 and args[1] is ...:
        return {"type": "array", "items": type_schema(args[0])}
    if not args or ... in args:
        raise UnknownTypeError(str(hint))
    return {"type": "array", "prefixItems": [type_schema(each) for each in args]}


def _object(hints: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {name: type_schema(each) for name, each in hints.items()}}
    return schema | {"required": required} if required else schema


def _inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without references to its own `$defs`. Raises UnknownTypeError for one that contains itself."""
    defined = schema.get("$defs", {})

    def inline(value: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [inline(item, inside) for item in value]
        if not isinstance(value, dict):
            return value
        name = str(value.get("$ref", "")).removeprefix("#/$defs/")
        if name in inside:
            raise UnknownTypeError(f"{name}, which contains itself")
        rest = {key: inline(item, inside) for key, item in value.items() if key not in ("$defs", "$ref")}
        return inline(defined[name], (*inside, name)) | rest if name in defined else rest

    inlined: dict[str, Any] = inline(dict(schema), ())
    return inlined
