"""The fields of a JSON object from a client: each is checked when it is read; a field that is not read is an error."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from edgellm.fmt import printable
from edgellm.server.failures import RequestError, invalid

_SHOWN = 8


class Fields:
    """A JSON object. `null` counts as not given. `where` is the path of the object in the body.

    Every method that reads a field raises RequestError, which names it, for a value of another type.
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
        self._read.add(name)
        return self._values.get(name)

    def text(self, name: str) -> str | None:
        """A text."""
        if (value := self.get(name)) is not None and not isinstance(value, str):
            raise invalid(self.path(name), "must be text")
        return value

    def required(self, name: str) -> str:
        """A text that must be given."""
        if (value := self.text(name)) is None:
            raise RequestError(400, f"{self.path(name)} is missing", self.path(name), "missing_required_parameter")
        return value

    def flag(self, name: str) -> bool:
        """True or false, false if it is not given."""
        if not isinstance(value := self.get(name), bool | None):
            raise invalid(self.path(name), "must be true or false")
        return bool(value)

    def integer(self, name: str, low: int, high: float = math.inf) -> int | None:
        """A whole number from `low` to `high`."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            upper = f" to {high}" if high < math.inf else ""
            raise invalid(self.path(name), f"must be a whole number from {low}{upper or ' on'}")
        return value

    def word(self, name: str, *words: str) -> str | None:
        """One of some words."""
        if (value := self.text(name)) is not None and value not in words:
            raise invalid(self.path(name), f"must be one of: {', '.join(words)}")
        return value

    def entries(self, name: str) -> list[Any] | None:
        """A list."""
        if (value := self.get(name)) is not None and not isinstance(value, list):
            raise invalid(self.path(name), "must be a list")
        return value

    def inner(self, name: str) -> "Fields | None":
        """An object, as fields."""
        value = self.get(name)
        return None if value is None else Fields.of(value, self.path(name))

    def objects(self, name: str) -> Iterator["Fields"]:
        """A list of objects, each as fields."""
        for number, value in enumerate(self.entries(name) or ()):
            yield Fields.of(value, f"{self.path(name)}[{number}]")

    def mapping(self, name: str) -> dict[str, Any] | None:
        """An object, as it is."""
        if (value := self.get(name)) is not None and not isinstance(value, dict):
            raise invalid(self.path(name), "must be a JSON object")
        return value

    def without(self, *names: str) -> dict[str, Any]:
        """All fields but these, unread."""
        return {name: value for name, value in self._values.items() if name not in names}

    def ignore(self, *names: str) -> None:
        """Read fields that change nothing, whatever they are."""
        self._read.update(names)

    def only(self, name: str, *values: object) -> None:
        """Read a field of which only some values are supported."""
        value = self.get(name)
        if value is not None and not any(type(value) is type(each) and value == each for each in values):
            raise invalid(self.path(name), f"is not supported, but for {' or '.join(map(_shown, values)) or 'null'}")

    def finish(self) -> None:
        """Raises RequestError for a field that was given but not read."""
        rest = [name for name, value in self._values.items() if name not in self._read and value is not None]
        if rest:
            named = ", ".join(printable(self.path(name)) for name in rest[:_SHOWN])
            raise RequestError(400, f"not supported: {named}", printable(self.path(rest[0])), "unsupported_parameter")


def _shown(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
