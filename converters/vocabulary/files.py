"""The files of a checkpoint, and JSON objects that check the type of every entry on access."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from edgellm.errors import ModelFileError
from edgellm.fmt import printable, shown_path

T = TypeVar("T")


class CheckpointFiles(Protocol):
    """The part of `Checkpoint` that is used here: files by their path below its folder, None for a missing one."""

    @property
    def path(self) -> Path:
        """The folder."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The content of config.json."""

    def json(self, name: str) -> Any | None:
        """The value of a JSON file, whose strings are valid UTF-8. Raises ModelFileError for invalid JSON."""

    def text(self, name: str) -> str | None:
        """The content of a text file."""

    def bytes(self, name: str) -> bytes | None:
        """The content of a file."""


class JsonObject:
    """A JSON object and its location: `where` names the file, `inside` is the path of the object, as in "model."."""

    def __init__(self, where: str, entries: Mapping[str, Any], inside: str = "") -> None:
        self.where = where
        self.entries = entries
        self._inside = inside

    def get(self, key: str, kind: type[T]) -> T | None:
        """The entry `key`; None if it is absent or null. Raises ModelFileError for another type."""
        value = self.entries.get(key)
        if value is None:
            return None
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fail(key, f"is {_name(type(value))} instead of {_name(kind)}")
        return value

    def required(self, key: str, kind: type[T]) -> T:
        """The entry `key`. Raises ModelFileError if it is absent."""
        value = self.get(key, kind)
        return self.fail(key, "is missing") if value is None else value

    def text(self, key: str) -> str | None:
        """The text `key`."""
        return self.get(key, str)

    def child(self, key: str) -> "JsonObject | None":
        """The object `key`."""
        entries = self.get(key, dict)
        return None if entries is None else JsonObject(self.where, entries, f"{self._inside}{printable(key)}.")

    def children(self, key: str) -> Iterator["JsonObject"]:
        """The objects in the list `key`, none if it is absent."""
        for i, entries in enumerate(self.get(key, list) or ()):
            if not isinstance(entries, dict):
                self.fail(f"{key}[{i}]", f"is {_name(type(entries))} instead of {_name(dict)}")
            yield JsonObject(self.where, entries, f"{self._inside}{printable(key)}[{i}].")

    def child_objects(self, key: str) -> Iterator[tuple[str, "JsonObject"]]:
        """Keys and values of the object `key`, whose values are objects."""
        table = self.child(key)
        for name, entries in table.entries.items() if table else ():
            if table and not isinstance(entries, dict):
                table.fail(name, f"is {_name(type(entries))} instead of {_name(dict)}")
            yield name, JsonObject(self.where, entries, f"{self._inside}{printable(key)}.{printable(name)}.")

    def fail(self, key: str, problem: str) -> NoReturn:
        """Raise ModelFileError about the entry `key`."""
        at = printable(f"{self._inside}{key}", 120)
        raise ModelFileError(f"{self.where}: {at} {problem}; get the checkpoint again")


def read(files: CheckpointFiles, name: str) -> JsonObject | None:
    """The object in a JSON file; None if there is no such file."""
    value = files.json(name)
    if value is None:
        return None
    where = display_path(files, name)
    if not isinstance(value, dict):
        raise ModelFileError(f"{where} holds {_name(type(value))} instead of an object; get the checkpoint again")
    return JsonObject(where, value)


def display_path(files: CheckpointFiles, name: str = "") -> str:
    """The path of the checkpoint, or of a file in it, for messages."""
    return shown_path(files.path / name)


_NAMES = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


def _name(kind: type) -> str:
    return _NAMES.get(kind, "null")
