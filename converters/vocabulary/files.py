"""The files of a checkpoint, and their JSON read with every type checked."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from edgellm.errors import ModelFileError
from edgellm.fmt import printable

T = TypeVar("T")


class CheckpointFiles(Protocol):
    """What is used of a checkpoint: files by their name below its folder, None for one that is not there."""

    @property
    def path(self) -> Path:
        """The folder."""

    @property
    def config(self) -> Mapping[str, Any]:
        """What config.json holds."""

    def json(self, name: str) -> Any | None:
        """What a JSON file holds, all its text fit for UTF-8. Raises ModelFileError when it is none."""

    def text(self, name: str) -> str | None:
        """What a text file holds."""

    def bytes(self, name: str) -> bytes | None:
        """What a file holds."""


class JsonObject:
    """A JSON object and where it stands: `where` names the file, `inside` the object in it, as in "model."."""

    def __init__(self, where: str, entries: Mapping[str, Any], inside: str = "") -> None:
        self.where = where
        self.entries = entries
        self._inside = inside

    def get(self, key: str, kind: type[T]) -> T | None:
        """The entry `key`; None where there is none or it is null. Raises ModelFileError for another type."""
        value = self.entries.get(key)
        if value is None:
            return None
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fail(key, f"is {_name(type(value))} instead of {_name(kind)}")
        return value

    def required(self, key: str, kind: type[T]) -> T:
        """The entry `key`, which must be there."""
        value = self.get(key, kind)
        return self.fail(key, "is missing") if value is None else value

    def text(self, key: str) -> str | None:
        """The text `key`."""
        return self.get(key, str)

    def part(self, key: str) -> "JsonObject | None":
        """The object `key`."""
        entries = self.get(key, dict)
        return None if entries is None else JsonObject(self.where, entries, f"{self._inside}{printable(key)}.")

    def parts(self, key: str) -> Iterator["JsonObject"]:
        """The objects in the list `key`, none where there is no list."""
        for i, entries in enumerate(self.get(key, list) or ()):
            if not isinstance(entries, dict):
                self.fail(f"{key}[{i}]", f"is {_name(type(entries))} instead of {_name(dict)}")
            yield JsonObject(self.where, entries, f"{self._inside}{printable(key)}[{i}].")

    def objects(self, key: str) -> Iterator[tuple[str, "JsonObject"]]:
        """The objects in the object `key`, by their keys."""
        table = self.part(key)
        for name, entries in table.entries.items() if table else ():
            if table and not isinstance(entries, dict):
                table.fail(name, f"is {_name(type(entries))} instead of {_name(dict)}")
            yield name, JsonObject(self.where, entries, f"{self._inside}{printable(key)}.{printable(name)}.")

    def fail(self, key: str, problem: str) -> NoReturn:
        """Raise ModelFileError about the entry `key`."""
        at = printable(f"{self._inside}{key}", 120)
        raise ModelFileError(f"{self.where}: {at} {problem}; get the checkpoint again")


def read(files: CheckpointFiles, name: str) -> JsonObject | None:
    """The object in a JSON file; None when there is no such file."""
    value = files.json(name)
    if value is None:
        return None
    where = display_path(files, name)
    if not isinstance(value, dict):
        raise ModelFileError(f"{where} holds {_name(type(value))} instead of an object; get the checkpoint again")
    return JsonObject(where, value)


def display_path(files: CheckpointFiles, name: str = "") -> str:
    """How messages name the checkpoint, or a file of it."""
    return printable(str(files.path / name), 400)


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
