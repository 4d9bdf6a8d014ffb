"""The settings of a model, and how they are typed.

Defaults, checks, help and choices are those of `edgellm.options`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from edgellm.errors import OptionError
from edgellm.options import ChatOptions, GenerationOptions, LoadOptions, TemplateOptions
from tui.core.setting_values import number_or_text, read_stops, read_template


class Group(Enum):
    """The class of options that a setting belongs to."""

    GENERATION = GenerationOptions
    CHAT = ChatOptions
    LOAD = LoadOptions
    TEMPLATE = TemplateOptions


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting. `read` makes a value of the typed text, and `typed` says how to type it, if the help does not."""

    name: str
    group: Group
    typed: str = ""
    read: Callable[[str], Any] = number_or_text

    @property
    def help(self) -> str:
        """What the setting does, without a period."""
        text: str = self.group.value.help(self.name)
        return f"{text}; {self.typed}" if self.typed else text

    @property
    def choices(self) -> tuple[str, ...]:
        """The only possible values; empty if others are possible."""
        choices: tuple[str, ...] = self.group.value.words(self.name)
        return choices

    @property
    def loads(self) -> bool:
        """Whether a change takes effect only when the model is opened again."""
        return self.group in LOAD_GROUPS

    @property
    def default(self) -> Any:
        """The default; None if it depends on the model or the machine."""
        return next(option.default for option in fields(self.group.value) if option.name == self.name)

    def parse(self, text: str) -> Any:
        """The value of a typed text. Raises OptionError, which names the possible values."""
        return getattr(self.group.value.from_kwargs(**{self.name: self.read(text)}), self.name)


LOAD_GROUPS = (Group.LOAD, Group.TEMPLATE)
"""The groups that a model is opened with."""


SETTINGS = (
    Setting("temp", Group.GENERATION),
    Setting("top_k", Group.GENERATION),
    Setting("top_p", Group.GENERATION),
    Setting("min_p", Group.GENERATION),
    Setting("repeat_penalty", Group.GENERATION),
    Setting("presence_penalty", Group.GENERATION),
    Setting("frequency_penalty", Group.GENERATION),
    Setting("max_tokens", Group.GENERATION),
    Setting("seed", Group.GENERATION),
    Setting("stop", Group.GENERATION, '\\n is a line end; several as ["a", "b"]', read_stops),
    Setting("overflow", Group.CHAT),
    Setting("ctx", Group.LOAD),
    Setting("kv_type", Group.LOAD),
    Setting("kv_memory", Group.LOAD),
    Setting("threads", Group.LOAD),
    Setting("gpu_layers", Group.LOAD),
    Setting("n_cpu_moe", Group.LOAD),
    Setting("engine", Group.LOAD),
    Setting("draft", Group.LOAD),
    Setting("template", Group.TEMPLATE, read=read_template),
)

BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}


_ALIASES = {
    "temperature": "temp",
    "num_ctx": "ctx",
    "ctx_size": "ctx",
    "context": "ctx",
    "num_predict": "max_tokens",
    "n_predict": "max_tokens",
    "num_gpu": "gpu_layers",
    "n_gpu_layers": "gpu_layers",
    "ngl": "gpu_layers",
    "draft_model": "draft",
    "model_draft": "draft",
    "ncmoe": "n_cpu_moe",
    "num_thread": "threads",
    "repetition_penalty": "repeat_penalty",
    "cache_type_k": "kv_type",
    "chat_template": "template",
}
"""Names of settings in other programs."""


def is_setting(name: str) -> bool:
    """Whether this is the name of a setting, here or in another program."""
    key = name.replace("-", "_").casefold()
    return key in BY_NAME or key in _ALIASES


def setting(name: str) -> Setting:
    """A setting by its name here or in another program; `-` and `_` are the same. Raises OptionError."""
    key = name.replace("-", "_").casefold()
    try:
        return BY_NAME[_ALIASES.get(key, key)]
    except KeyError:
        raise OptionError(f"there is no setting {name}; there are {', '.join(BY_NAME)}") from None


def chosen(values: Mapping[str, Any], *groups: Group) -> dict[str, Any]:
    """The values that are options of the groups, whether or not there is a setting for them; None is left out."""
    names = {option.name for group in groups for option in fields(group.value)}
    return {name: value for name, value in values.items() if name in names and value is not None}


def rest(values: Mapping[str, Any], *groups: Group) -> dict[str, Any]:
    """The values that are no options of the groups."""
    return {name: value for name, value in values.items() if name not in chosen({name: 0}, *groups)}


def valid(values: Mapping[str, Any]) -> dict[str, Any]:
    """The stored values that are settings with valid values: the store may be of an older or newer version."""
    found = {}
    for name, value in values.items():
        try:
            found[name] = getattr(BY_NAME[name].group.value.from_kwargs(**{name: value}), name)
        except (KeyError, OptionError):
            continue
    return found
