"""config.json and generation_config.json: their values, with checks of types and ranges."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from converters.checkpoint.files import fail, without_nulls
from converters.checkpoint.json_values import LARGEST, JSONValues
from edgellm.errors import UnsupportedModelError
from edgellm.fmt import shown_path

_TEXT_MODEL = "text_config"


class Config(JSONValues):
    """The configuration in the file `path`. All methods raise ModelFileError.

    `nulls` are the keys whose value is null, as transformers has other defaults for some of them than for absent keys.
    `defaults` are values of keys that are absent and not null.
    """

    def __init__(self, path: Path, values: object, defaults: Mapping[str, object] | None = None) -> None:
        if not isinstance(values, Mapping):
            fail(path, "must hold a JSON object; correct it")
        super().__init__(path, values)
        self._given = frozenset(self._values)
        own = {key: value for key, value in (defaults or {}).items() if key not in values}
        self.nulls = frozenset((values.keys() | own.keys()) - self._given - without_nulls(own).keys())
        self._values = {**without_nulls(own), **self._values}

    def text_model(self, defaults: Mapping[str, object]) -> "Config":
        """The configuration of the text model, which may be inside that of a larger model, with other defaults."""
        return self.merged(_TEXT_MODEL, defaults)

    def merged(self, key: str, defaults: Mapping[str, object] | None = None) -> "Config":
        """The configuration with the values of the object at `key` before its own, and with other defaults."""
        given = {name: self._values[name] for name in self._given - {key}}
        return Config(self.path, {**dict.fromkeys(self.nulls), **given, **self.section(key)}, defaults)

    def given(self, key: str) -> bool:
        """Whether the file has the key, with a value that is not null."""
        return key in self._given

    def refuse(self, problem: str) -> NoReturn:
        """Raise UnsupportedModelError with the file's name before `problem`."""
        raise UnsupportedModelError(f"{shown_path(self.path)}: {problem}")

    def integers(self, key: str, count: int, least: int = 1, most: int = (1 << 31) - 1) -> list[int]:
        """The first `count` integers of the list at `key`, which may have more, or one integer for all."""
        value = self._values.get(key)
        items = value[:count] if isinstance(value, list) else [value] * count
        whole = [item for item in items if type(item) is int and least <= item <= most]
        if len(whole) < count:
            self._wrong(key, f"a whole number from {least} to {most}, or a list of {count}")
        return whole

    def numbers(self, key: str, least: float = 0.0) -> list[float]:
        """The list of numbers at `key`, each at least `least`; an empty one where it is absent."""
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(
            type(item) in (int, float) and least <= item <= LARGEST for item in value
        ):
            self._wrong(key, f"a list of numbers from {least:g} to {LARGEST:g}")
        return [float(item) for item in value]

    def is_unlimited(self, key: str) -> bool:
        """Whether the value at `key` is absent, or the limits of 0 and infinity."""
        infinity = (math.inf, {"__float__": "Infinity"})  # the second as transformers 5 writes it
        value = self._values.get(key, [0.0, math.inf])
        return isinstance(value, list) and len(value) == 2 and value[0] == 0 and value[1] in infinity

    def is_integer(self, key: str) -> bool:
        """Whether the value at `key` is a whole number, and no truth value."""
        return type(self._values.get(key)) is int

    def is_text(self, key: str) -> bool:
        """Whether the value at `key` is a text."""
        return isinstance(self._values.get(key), str)

    def names(self, key: str) -> list[str]:
        """The list of texts at `key`, an empty one where it is absent."""
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._wrong(key, "a list of names")
        return value
