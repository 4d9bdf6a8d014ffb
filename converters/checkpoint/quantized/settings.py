"""What a checkpoint says of its quantization."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from converters.checkpoint import files
from converters.checkpoint.files import without_nulls
from edgellm.fmt import printable

_KEY = "quantization_config"
_GPTQ_FILE, _AWQ_FILE, _MODELOPT_FILE = "quantize_config.json", "quant_config.json", "hf_quant_config.json"
_LARGEST = float(np.finfo(np.float32).max)
_AWQ_KEYS = {"w_bit": "bits", "q_group_size": "group_size"}

AUTOROUND = "auto-round"
"""The method that writes the layouts of others, which `packing_format` names."""

MODELOPT = "modelopt"
"""The method of NVIDIA's ModelOpt, also with an ending, such as "modelopt_fp4"."""

SETTINGS_FILES = frozenset({_GPTQ_FILE, _AWQ_FILE, _MODELOPT_FILE})
"""Files that say it where config.json does not: those of AutoGPTQ, AutoAWQ and ModelOpt."""


class Settings:
    """The settings of a quantization, from the file `path`. A null counts as absent. Methods raise ModelFileError."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self._values: dict[str, Any] = without_nulls(dict(values))

    @property
    def method(self) -> str:
        """The name of the method in lower case, "" where there is none; bitsandbytes was not named at first."""
        in_bits = self._values.get("load_in_4bit") or self._values.get("load_in_8bit")
        name = self._values.get("quant_method", self._values.get("method", "bitsandbytes" if in_bits else ""))
        return str(name).lower().removeprefix("intel/")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __bool__(self) -> bool:
        return bool(self._values)

    def fail(self, problem: str) -> NoReturn:
        """Raise ModelFileError with the name of the file before `problem`."""
        files.fail(self.path, problem)

    def integer(self, key: str, default: int | None, allowed: Collection[int]) -> int:
        """The integer at `key`, one of `allowed`; `default` where it is absent, unless that is None."""
        value = self._values.get(key, default)
        if type(value) is not int or value not in allowed:
            listed = f"from {allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else f"one of {_list(allowed)}"
            self._wrong(key, f"a whole number, {listed}")
        return value

    def number(self, key: str, default: float) -> float:
        """The finite number at `key`."""
        value = self._values.get(key, default)
        if type(value) not in (int, float) or not abs(value) <= _LARGEST:
            self._wrong(key, "a number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
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

    def value(self, key: str) -> Any:
        """Whatever is at `key`, None where it is absent."""
        return self._values.get(key)

    def _wrong(self, key: str, wanted: str) -> NoReturn:
        value = printable(repr(self._values.get(key)))
        self.fail(f"{printable(key)} of the quantization is {value}, not {wanted}; download it again")


def settings_of(path: Path, config: Mapping[str, Any]) -> Settings:
    """The settings in `config`, the content of config.json at `path`; empty ones where it has none.

    In models that also take images they may be in the configuration of the text model.
    """
    text = config.get("text_config")
    inner = text.get(_KEY) if isinstance(text, Mapping) else None
    found = config.get(_KEY) or inner or {}
    if not isinstance(found, dict):
        files.fail(path, f"{_KEY} must be a JSON object; download it again")
    return Settings(path, found)


def read_settings(folder: Path, config: Mapping[str, Any]) -> Settings:
    """The settings of a checkpoint folder with this config.json. Raises ModelFileError."""
    settings = settings_of(folder / "config.json", config)
    if not settings and (found := files.read_object(folder, _GPTQ_FILE)):
        return Settings(folder / _GPTQ_FILE, {"method": "gptq", **found})
    if not settings and (found := files.read_object(folder, _AWQ_FILE)):
        renamed = {_AWQ_KEYS.get(key, key): value for key, value in found.items()}
        return Settings(folder / _AWQ_FILE, {"method": "awq", **renamed})
    if not settings and (found := files.read_object(folder, _MODELOPT_FILE)):
        inner = Settings(folder / _MODELOPT_FILE, found).section("quantization")
        return Settings(folder / _MODELOPT_FILE, {"method": MODELOPT, **inner})
    return settings


def _list(numbers: Collection[int]) -> str:
    return ", ".join(map(str, numbers))
