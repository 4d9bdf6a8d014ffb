"""Fields of options: each has a default, a help text, its choices if there are any, and a check of its values."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Self, TypeVar

from edgellm.errors import OptionError
from edgellm.options.aliases import OPTION_ALIASES, closest_match
from edgellm.options.checks import OneOf

Set = TypeVar("Set", bound="Options")
T = TypeVar("T")


def option(default: object, check: Callable[[object], object], help: str) -> Any:
    """A dataclass field. `help` has no period at its end and does not mention the default.

    A default of None also means "not set"; where the help says "by default", it tells what happens then.
    """
    metadata = {"check": check, "help": help}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Options:
    """The base of the option sets: values are checked, unknown names are refused."""

    def __post_init__(self) -> None:
        """Check each value and keep it in its proper type.

        Raises:
            OptionError: a value is impossible; the message says which values are possible.
        """
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                object.__setattr__(self, each.name, validate(each.name, each.metadata["check"], value))

    @classmethod
    def names(cls) -> list[str]:
        """The names of all options."""
        return [each.name for each in fields(cls)]

    @classmethod
    def field(cls, name: str) -> "Field[Any]":
        """The dataclass field of an option."""
        return next(each for each in fields(cls) if each.name == name)

    @classmethod
    def help(cls, name: str) -> str:
        """What an option does, in one sentence without a period."""
        return str(cls.field(name).metadata["help"])

    @classmethod
    def words(cls, name: str) -> tuple[str, ...]:
        """The possible values of an option that is one of a few words; empty for all others."""
        check = cls.field(name).metadata["check"]
        return check.names if isinstance(check, OneOf) else ()

    @classmethod
    def from_kwargs(cls, defaults: Mapping[str, object] | None = None, /, **given: object) -> Self:
        """Options from keyword arguments. None means "not given"; then the value is that of `defaults`, if it has one.

        Raises:
            OptionError: a name is unknown or a value impossible.
        """
        known = cls.names()
        for name in given:
            if name not in known:
                raise OptionError(f"unknown option {name}: {_advice(name, known)}")
        chosen = {name: value for name, value in given.items() if value is not None}
        return cls(**{**(defaults or {}), **chosen})


def documented(options: type[Set]) -> type[Set]:
    """Add a line for each option to the docstring of an option set, for `help()`."""
    lines = [f"{name}: {options.help(name)}{default_shown(options, name)}." for name in options.names()]
    options.__doc__ = "\n    ".join([f"{(options.__doc__ or '').rstrip()}\n", *lines])
    return options


def default_shown(options: type[Options], name: str) -> str:
    """The default of an option to follow its help, such as ` [0.8]`; empty where it is "not set" or "no"."""
    default = options.field(name).default
    if default in (None, (), MISSING) or default is False:
        return ""
    return f" [{default:g}]" if isinstance(default, float) else f" [{default}]"


def validate(name: str, check: Callable[[object], T], value: object) -> T:
    """A value that passed its check, in its proper type. Raises OptionError, which says which values are possible."""
    try:
        return check(value)
    except ValueError as error:
        raise OptionError(f"option {name} cannot be {shorten(value)}: give {error}") from error


def check_text(name: str, value: object) -> None:
    """Raise OptionError unless the value is text."""
    if not isinstance(value, str):
        raise OptionError(f"{name} cannot be {shorten(value)}: give text")


def shorten(value: object) -> str:
    """The value on one line of at most 60 characters."""
    if isinstance(value, tuple) and len(value) == 1:  # a repeatable option that was given once
        (value,) = value
    line = " ".join(repr(value).split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def _advice(name: str, known: list[str]) -> str:
    meant = closest_match(name, known) if OPTION_ALIASES.get(name) not in known else OPTION_ALIASES[name]
    return f"did you mean {meant}?" if meant else f"the options here are {', '.join(known)}"
