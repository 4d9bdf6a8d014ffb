"""JSON schemas of classes: dataclasses and what their fields are of, and values of these from JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from edgellm.errors import GuideError
from edgellm.fmt import printable
from edgellm.options.base import shorten

_PLAIN: Mapping[Any, dict[str, Any]] = {
    Any: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    list: {"type": "array"},
    dict: {"type": "object"},
}


def schema_of(kind: type) -> dict[str, Any]:
    """The schema of a class: a model of pydantic has its own, a dataclass that of its fields. Raises GuideError."""
    if callable(own := getattr(kind, "model_json_schema", None)):
        schema: dict[str, Any] = own()
        return schema
    if not is_dataclass(kind):
        _refuse(kind, "has no JSON schema; give a dataclass, a model of pydantic, or the schema itself")
    defined = dict[str, Any]()
    return {**_schema(kind, defined), "$defs": defined}


def from_json(kind: Any, value: Any) -> Any:
    """A value of a type from its JSON value, which is valid against the schema of the type."""
    origin, args = _generic(kind)
    if origin is Annotated:
        return from_json(args[0], value)
    if origin in (Union, UnionType):
        return from_json(next(each for each in args if _fits(each, value)), value)
    if origin is tuple:
        items = [args[0]] * len(value) if args[1:] == (...,) else args
        return tuple(from_json(item, each) for item, each in zip(items, value, strict=True))
    if origin in (list, Sequence):
        return [from_json(args[0], each) for each in value]
    if origin in (dict, Mapping):
        return {name: from_json(args[1], each) for name, each in value.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind, include_extras=True)
        return kind(**{name: from_json(hints[name], each) for name, each in value.items()})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    return float(value) if kind is float else value


def _schema(kind: Any, defined: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; `defined` gets those of dataclasses, by name."""
    origin, args = _generic(kind)
    if origin is Annotated:
        return _schema(args[0], defined)
    if origin in (Union, UnionType):
        return {"anyOf": [_schema(each, defined) for each in args]}
    if origin is Literal:
        return {"enum": list(args)}
    if origin is tuple:
        return _tuple(args, defined)
    if origin in (list, Sequence):
        return {"type": "array", "items": _schema(args[0], defined)}
    if origin in (dict, Mapping) and args[0] is str:
        return {"type": "object", "additionalProperties": _schema(args[1], defined)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if isinstance(kind, type) and is_dataclass(kind):
        return _reference(kind, defined)
    plain = kind if get_origin(kind) is None else get_origin(kind)
    if plain not in _PLAIN or args:
        _refuse(kind, "is a type that JSON has no values of")
    return dict(_PLAIN[plain])


def _generic(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """The origin of a generic type and its arguments; none for one that is given none, such as typing.List."""
    args = get_args(kind)
    return (get_origin(kind) if args else None), args


def _hints(kind: type) -> dict[str, Any]:
    """The types of the fields of a dataclass. Raises GuideError."""
    try:
        return get_type_hints(kind, include_extras=True)
    except Exception as error:  # annotations are code of the caller
        _refuse(kind, f"has annotations that cannot be read ({printable(str(error))})")


def _tuple(args: Sequence[Any], defined: dict[str, Any]) -> dict[str, Any]:
    if args[1:] == (...,):
        return {"type": "array", "items": _schema(args[0], defined)}
    items = [_schema(each, defined) for each in args]
    return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}


def _reference(kind: type, defined: dict[str, Any]) -> dict[str, Any]:
    """A reference to the schema of a dataclass, which may contain itself."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name not in defined:
        defined[name] = {}
        hints = _hints(kind)
        needed, own = _needed(kind), [each for each in fields(kind) if each.init]
        defined[name] = {
            "type": "object",
            "properties": {each.name: _schema(hints[each.name], defined) for each in own},
            "required": [each.name for each in own if each.name in needed],
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{name.replace('~', '~0').replace('/', '~1')}"}


def _fits(kind: Any, value: Any) -> bool:
    """Whether a JSON value can be of a type, of those in one union."""
    origin, args = _generic(kind)
    if origin is Annotated:
        return _fits(args[0], value)
    if origin in (Union, UnionType):
        return any(_fits(each, value) for each in args)
    if origin is Literal:
        return any(value == each and type(value) is type(each) for each in args)
    if origin is tuple:
        items = [args[0]] * len(value) if args[1:] == (...,) else args
        return isinstance(value, list) and len(value) == len(items) and all(map(_fits, items, value))
    if origin in (list, Sequence):
        return isinstance(value, list) and all(_fits(args[0], each) for each in value)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(_fits(args[1], each) for each in value.values())
    return _fits_class(kind, value)


def _fits_class(kind: Any, value: Any) -> bool:
    if kind is Any:
        return True
    if isinstance(kind, type) and is_dataclass(kind):
        hints, needed = get_type_hints(kind, include_extras=True), _needed(kind)
        is_object = isinstance(value, dict) and needed <= value.keys() <= {each.name for each in fields(kind)}
        return is_object and all(_fits(hints[name], each) for name, each in value.items())
    if isinstance(kind, type) and issubclass(kind, Enum):
        return any(value == each.value and type(value) is type(each.value) for each in kind)
    wanted = (int, float) if kind is float else get_origin(kind) or kind
    return isinstance(value, wanted) and (kind is bool or not isinstance(value, bool))


def _needed(kind: Any) -> set[str]:
    """The names of the fields of a dataclass that have no default."""
    own = (each for each in fields(kind) if each.init)
    return {each.name for each in own if each.default is MISSING and each.default_factory is MISSING}


def _refuse(kind: Any, problem: str) -> NoReturn:
    raise GuideError(f"option json_schema: {printable(shorten(kind))} {problem}")
