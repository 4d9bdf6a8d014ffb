"""What can be set for a model; values are checked where they are entered.

Defaults, checks, help and choices are those of `edgellm.options`; nothing here has one of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from edgellm.errors import OptionError
from edgellm.options import ChatOptions, GenerationOptions, LoadOptions, TemplateOptions
from tui.core.setting_values import number_or_text, read_stops, read_template


class Group(Enum):
    """What a setting belongs to."""

    GENERATION = GenerationOptions
    CHAT = ChatOptions
    LOAD = LoadOptions
    TEMPLATE = TemplateOptions


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that can be set; `read` makes a value of what is typed, `typed` says how to type it."""

    name: str
    group: Group
    typed: str = ""
    read: Callable[[str], Any] = number_or_text

    @property
    def help(self) -> str:
        """What it does, in one sentence without a period."""
        return self.group.value.help(self.name) + (f"; {self.typed}" if self.typed else "")

    @property
    def choices(self) -> tuple[str, ...]:
        """Its only possible values; empty if it has others."""
        return self.group.value.choices(self.name)

    @property
    def loads(self) -> bool:
        """Whether another value opens the model anew."""
        return self.group in OPENING

    @property
    def default(self) -> Any:
        """edgellm's default; None where it comes from the model or the machine."""
        return next(option.default for option in fields(self.group.value) if option.name == self.name)

    def parse(self, text: str) -> Any:
        """The value that a person typed. Raises OptionError, which says what it may be."""
        return getattr(self.group.value.from_kwargs(**{self.name: self.read(text)}), self.name)


OPENING = (Group.LOAD, Group.TEMPLATE)
"""What a model is opened with."""


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
    Setting("engine", Group.LOAD),
    Setting("template", Group.TEMPLATE, read=read_template),
)

BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}


_ALSO = {
    "temperature": "temp",
    "num_ctx": "ctx",
    "ctx_size": "ctx",
    "context": "ctx",
    "num_predict": "max_tokens",
    "n_predict": "max_tokens",
    "num_gpu": "gpu_layers",
    "n_gpu_layers": "gpu_layers",
    "ngl": "gpu_layers",
    "num_thread": "threads",
    "repetition_penalty": "repeat_penalty",
    "cache_type_k": "kv_type",
    "chat_template": "template",
}
"""What settings are called in other programs."""


def is_setting(name: str) -> bool:
    """Whether a setting is called so, here or elsewhere."""
    asked = name.replace("-", "_").casefold()
    return asked in BY_NAME or asked in _ALSO


def setting(name: str) -> Setting:
    """The setting of a name, `-` as good as `_`, or of its name elsewhere. Raises OptionError, which lists them all."""
    asked = name.replace("-", "_").casefold()
    try:
        return BY_NAME[_ALSO.get(asked, asked)]
    except KeyError:
        raise OptionError(f"there is no setting {name}; there are {', '.join(BY_NAME)}") from None


def chosen(values: Mapping[str, Any], *groups: Group) -> dict[str, Any]:
    """Those of the values that are options of the groups, also where there is no setting for them; None is no value."""
    names = {option.name for group in groups for option in fields(group.value)}
    return {name: value for name, value in values.items() if name in names and value is not None}


def rest(values: Mapping[str, Any], *groups: Group) -> dict[str, Any]:
    """Those of the values that are none of the groups."""
    return {name: value for name, value in values.items() if name not in chosen({name: 0}, *groups)}


def valid(values: Mapping[str, Any]) -> dict[str, Any]:
    """Stored values as far as they are still settings and possible: a store may be older or newer than this."""
    found = {}
    for name, value in values.items():
        try:
            found[name] = getattr(BY_NAME[name].group.value.from_kwargs(**{name: value}), name)
        except (KeyError, OptionError):
            continue
    return found
