"""What a checkpoint says of its quantization."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from converters.checkpoint import files
from converters.checkpoint.json_values import JSONValues
from edgellm.fmt import printable

_KEY, _GROUPS = "quantization_config", "config_groups"
_GPTQ_FILE, _AWQ_FILE, _MODELOPT_FILE = "quantize_config.json", "quant_config.json", "hf_quant_config.json"
_AWQ_KEYS = {"w_bit": "bits", "q_group_size": "group_size"}

AUTOROUND = "auto-round"
"""The method that writes the layouts of others, which `packing_format` names."""

MODELOPT = "modelopt"
"""The method of NVIDIA's ModelOpt, also with an ending, such as "modelopt_fp4"."""

SETTINGS_FILES = frozenset({_GPTQ_FILE, _AWQ_FILE, _MODELOPT_FILE})
"""Files that say it where config.json does not: those of AutoGPTQ, AutoAWQ and ModelOpt."""


class Settings(JSONValues):
    """The settings of a quantization, from the file `path`. All methods raise ModelFileError."""

    _owner = " of the quantization"
    _advice = "download it again"

    @property
    def method(self) -> str:
        """The name of the method in lower case, "" where there is none; bitsandbytes was not named at first."""
        in_bits = self._values.get("load_in_4bit") or self._values.get("load_in_8bit")
        name = self._values.get("quant_method", self._values.get("method", "bitsandbytes" if in_bits else ""))
        return str(name).lower().removeprefix("intel/")

    def __bool__(self) -> bool:
        return bool(self._values)

    def one_of(self, key: str, allowed: Collection[int], default: int | None = None) -> int:
        """The integer at `key`, one of `allowed`."""
        value = self._values.get(key, default)
        if type(value) is not int or value not in allowed:
            several = len(allowed) > 1
            self._wrong(
                key, f"one of {', '.join(map(str, allowed))}" if several else f"{min(allowed)}, which alone is possible"
            )
        return value

    def group_size(self, default: int = -1) -> int:
        """The columns of a group; all of them where it is not above 0."""
        return self.integer("group_size", default, least=-1)

    @property
    def by_module(self) -> Mapping[str, Any]:
        """AutoRound's settings of single modules, for `of_module`."""
        return self.section("extra_config")

    def value(self, key: str) -> Any:
        """Whatever is at `key`, None where it is absent."""
        return self._values.get(key)


def of_module(by_module: Mapping[str, Any], module: str, key: str, default: int) -> int:
    """The integer at `key` of a module in AutoRound's `extra_config`, which lists modules that differ from the rest.

    `default` is for a module without it.
    """
    own = by_module.get(module)
    value = own.get(key) if isinstance(own, Mapping) else None
    return value if type(value) is int else default


def settings_of(path: Path, config: Mapping[str, Any]) -> Settings:
    """The settings in `config`, the content of config.json at `path`; empty ones where it has none.

    In models that also take images they may be in the configuration of the text model.
    """
    text = config.get("text_config")
    inner = text.get(_KEY) if isinstance(text, Mapping) else None
    found = config.get(_KEY) or inner or {}
    if not isinstance(found, dict):
        files.fail(path, f"{_KEY} must be a JSON object; download it again")
    _check_groups(path, found.get(_GROUPS))
    return Settings(path, found)


def _check_groups(path: Path, groups: Any) -> None:
    """Raise ModelFileError for a group of compressed-tensors that is null: `Settings` takes nulls for absent."""
    for name, group in groups.items() if isinstance(groups, dict) else ():
        if group is None:
            files.fail(path, f"{printable(name)} of {_GROUPS} is null, not an object; download it again")


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
