"""The fields of a JSON object from a client: each is checked when it is read; a field that is not read is an error."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from edgellm.fmt import printable
from edgellm.options.aliases import closest_match
from edgellm.server.failures import RequestError, invalid

_SHOWN = 8
Schema = dict[str, Any]
"""A JSON schema. In place of a type it may have the name of an option of edgellm, as `option`."""


class Fields:
    """A JSON object. `null` counts as not given. `where` is the path of the object in the body.

    Every method that reads a field says what it checks as a schema, of which `edgellm.server.openapi` makes the
    description of a body. It raises RequestError, which names it, for a value of another type.
    """

    def __init__(self, values: Mapping[str, Any], where: str = "") -> None:
        self._values, self._where = values, where
        self._read = set[str]()

    @classmethod
    def of(cls, value: object, where: str) -> "Fields":
        """An object at the path `where` of a body."""
        if not isinstance(value, Mapping):
            raise invalid(where or "the body", "must be a JSON object")
        return cls(value, f"{where}." if where else "")

    def path(self, name: str) -> str:
        """The path of a field in the body."""
        return f"{self._where}{name}"

    def get(self, name: str) -> Any:
        """A value of any type, None if it is not given."""
        return self._value(name, {})

    def _value(self, name: str, schema: Schema) -> Any:
        """A value, which is now read. `schema` has what the caller checks; nothing is null unless it says so."""
        self._read.add(name)
        return self._values.get(name)

    def text(self, name: str) -> str | None:
        """A text."""
        if (value := self._value(name, _or_null("string"))) is not None and not isinstance(value, str):
            raise invalid(self.path(name), "must be text")
        return value

    def required(self, name: str) -> str:
        """A text that must be given."""
        if (value := self._value(name, {"type": "string"})) is None:
            raise self._missing(name)
        if not isinstance(value, str):
            raise invalid(self.path(name), "must be text")
        return value

    def _missing(self, name: str) -> RequestError:
        return RequestError(400, f"{self.path(name)} is missing", self.path(name), "missing_required_parameter")

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false, or the default if it is not given."""
        if not isinstance(value := self._value(name, _or_null("boolean")), bool | None):
            raise invalid(self.path(name), "must be true or false")
        return default if value is None else value

    def integer(self, name: str, low: int, high: float = math.inf) -> int | None:
        """A whole number from `low` to `high`."""
        most = {"maximum": high} if high < math.inf else {}
        if (value := self._value(name, {**_or_null("integer"), "minimum": low, **most})) is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            upper = f" to {high}" if high < math.inf else ""
            raise invalid(self.path(name), f"must be a whole number from {low}{upper or ' on'}")
        return value

    def word(self, name: str, *words: str) -> str | None:
        """One of some words."""
        if (value := self._value(name, {"enum": [*words, None]})) is not None and value not in words:
            raise invalid(self.path(name), f"must be one of: {', '.join(words)}")
        return value  # type: ignore[no-any-return]

    def required_word(self, name: str, *words: str) -> str:
        """One of some words, which must be given."""
        if (value := self._value(name, {"enum": list(words)})) is None:
            raise self._missing(name)
        if value not in words:
            raise invalid(self.path(name), f"must be one of: {', '.join(words)}")
        return str(value)

    def entries(self, name: str) -> list[Any] | None:
        """A list."""
        if (value := self._value(name, _or_null("array"))) is not None and not isinstance(value, list):
            raise invalid(self.path(name), "must be a list")
        return value

    def text_or_list(self, name: str, parts: str) -> str | list[Any] | None:
        """Text, or a list of `parts`."""
        if (value := self._value(name, _or_null("string", "array"))) is not None and not isinstance(value, str | list):
            raise invalid(self.path(name), f"must be text, or a list of {parts}")
        return value

    def option(self, name: str, option: str) -> Any:
        """A value for an option of `GenerationOptions`, which checks it itself, later."""
        return self._value(name, {"option": option})

    def inner(self, name: str) -> "Fields | None":
        """An object, as fields."""
        value = self._value(name, _or_null("object"))
        return None if value is None else self._inside(value, name)

    def objects(self, name: str) -> Iterator["Fields"]:
        """A list of objects, each as fields."""
        for number, value in enumerate(self.entries(name) or ()):
            yield self._inside(value, name, f"[{number}]")

    def _inside(self, value: object, name: str, place: str = "") -> "Fields":
        """An object in a field, at a place of its list if it has one."""
        return Fields.of(value, f"{self.path(name)}{place}")

    def mapping(self, name: str) -> dict[str, Any] | None:
        """An object, as it is."""
        if (value := self._value(name, _or_null("object"))) is not None and not isinstance(value, dict):
            raise invalid(self.path(name), "must be a JSON object")
        return value

    def without(self, *names: str) -> dict[str, Any]:
        """All fields but these, unread."""
        return {name: value for name, value in self._values.items() if name not in names}

    def ignore(self, *names: str) -> None:
        """Read fields that change nothing, whatever they are."""
        for name in names:
            self._value(name, {})

    def only(self, name: str, *values: object) -> None:
        """Read a field of which only some values are supported."""
        value = self._value(name, {"enum": [*values, None]})
        if value is not None and not any(type(value) is type(each) and value == each for each in values):
            raise invalid(self.path(name), f"is not supported, but for {' or '.join(map(_shown, values)) or 'null'}")

    def finish(self) -> None:
        """Raises RequestError for a field that was given but not read."""
        rest = [name for name, value in self._values.items() if name not in self._read and value is not None]
        if rest:
            named = ", ".join(printable(self.path(name)) for name in rest[:_SHOWN])
            if meant := self._meant(rest[0]):
                named += f"; did you mean {meant}?"
            raise RequestError(400, f"not supported: {named}", printable(self.path(rest[0])), "unsupported_parameter")

    def _meant(self, name: str) -> str | None:
        """The field that a name may mean: one that was read here, and is not given."""
        return closest_match(name, sorted(self._read - self._values.keys()))


def _or_null(*types: str) -> Schema:
    return {"type": [*types, "null"]}


def _shown(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
