"""Typed access to a JSON object of a checkpoint, with checks of types and ranges."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from converters.checkpoint import files
from converters.checkpoint.files import without_nulls
from edgellm.fmt import printable

LARGEST = 1e15
"""The largest number that is no mistake."""

_MOST = (1 << 31) - 1


class JSONValues:
    """The JSON object `values` in the file `path`. A key whose value is null counts as absent.

    All methods that read a value return `default` where it is absent and has one, and raise ModelFileError for a value
    of another type or range.
    """

    _owner: ClassVar[str] = ""
    """Follows the name of a key in errors."""
    _advice: ClassVar[str] = "correct it"
    """What to do about a wrong value."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self._values: dict[str, Any] = without_nulls(dict(values))

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def fail(self, problem: str) -> NoReturn:
        """Raise ModelFileError with the file's name before `problem`."""
        files.fail(self.path, problem)

    def integer(self, key: str, default: int | None = None, least: int = 1, most: int = _MOST) -> int:
        """The integer at `key`."""
        value = self._values.get(key, default)
        if type(value) is not int or not least <= value <= most:
            self._wrong(key, f"a whole number from {least} to {most}")
        return value

    def number(self, key: str, default: float | None = None, least: float = 0.0) -> float:
        """The number at `key`, at least `least`."""
        value = self._values.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= LARGEST:
            self._wrong(key, f"a number from {least:g} to {LARGEST:g}")
        return float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        """The truth value at `key`."""
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            self._wrong(key, "true or false")
        return value

    def word(self, key: str, default: str) -> str:
        """The text at `key`."""
        value = self._values.get(key, default)
        if not isinstance(value, str):
            self._wrong(key, "text")
        return value

    def section(self, key: str) -> Mapping[str, Any]:
        """The object at `key`, an empty one where it is absent."""
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            self._wrong(key, "an object")
        return value

    def _wrong(self, key: str, wanted: str) -> NoReturn:
        name = f"{printable(key)}{self._owner}"
        if key not in self._values:
            self.fail(f"has no {name}; get another copy of the checkpoint")
        self.fail(f"{name} is {printable(repr(self._values[key]))}, not {wanted}; {self._advice}")
