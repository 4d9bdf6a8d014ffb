"""Every option a person can set, its default, and what it may be.

The command line, the screen and the Python names read the defaults from here and have none of their own.
An options object cannot hold an impossible value: each value is checked when the object is made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

from edgellm.errors import OptionError
from edgellm.options.aliases import OPTION_ALIASES, closest_match
from edgellm.options.checks import (
    OneOf,
    boolean,
    gpu_layers,
    integer,
    logit_bias,
    logprobs,
    nonempty_text,
    number,
    one_of,
    stop_strings,
)

T = TypeVar("T")

FILE_KEYS = {
    "general.sampling.temp": "temp",
    "general.sampling.top_k": "top_k",
    "general.sampling.top_p": "top_p",
    "general.sampling.min_p": "min_p",
    "general.sampling.penalty_repeat": "repeat_penalty",
    "general.sampling.penalty_last_n": "penalty_last_n",
}
"""Metadata by which a model file says how it is best sampled, and the option each one sets.

Source: `gguf.Keys.General.SAMPLING_*`. Its keys for samplers that edgellm does not have are left out.
"""


def _option(check: Callable[[object], object], default: object) -> Any:
    """A field with its default and the check of its values; a default of None also means "not set"."""
    metadata = {"check": check}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


class _Options:
    """What the option sets have in common: values are checked, unknown names are refused."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __post_init__(self) -> None:
        """Check each value and keep it in its proper type.

        Raises:
            OptionError: a value is impossible; the message says what it may be.
        """
        for option in fields(self):
            value = getattr(self, option.name)
            if value is not None or option.default is not None:
                object.__setattr__(self, option.name, validate(option.name, option.metadata["check"], value))

    @classmethod
    def names(cls) -> list[str]:
        """The names of all options."""
        return [option.name for option in fields(cls)]

    @classmethod
    def choices(cls, name: str) -> tuple[str, ...]:
        """The words that an option of a few words may be."""
        check = next(option.metadata["check"] for option in fields(cls) if option.name == name)
        return check.names if isinstance(check, OneOf) else ()

    @classmethod
    def from_kwargs(cls, defaults: Mapping[str, object] | None = None, /, **given: object) -> Self:
        """Options out of what was given; None means "not given", and `defaults` lie under what was.

        Raises:
            OptionError: a name is unknown or a value impossible.
        """
        known = cls.names()
        for name in given:
            if name not in known:
                raise OptionError(f"unknown option {name}: {_advice(name, known)}")
        chosen = {name: value for name, value in given.items() if value is not None}
        return cls(**{**(defaults or {}), **chosen})


def validate(name: str, check: Callable[[object], T], value: object) -> T:
    """A value that passed its check, in its proper type. Raises OptionError, which says what it may be."""
    try:
        return check(value)
    except ValueError as error:
        raise OptionError(f"option {name} cannot be {_shown(value)}: give {error}") from error


def _shown(value: object) -> str:
    """The value on one short line."""
    if isinstance(value, tuple) and len(value) == 1:  # what was given once of an option that may come several times
        (value,) = value
    line = " ".join(repr(value).split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def _advice(name: str, known: list[str]) -> str:
    meant = closest_match(name, known) if OPTION_ALIASES.get(name) not in known else OPTION_ALIASES[name]
    return f"did you mean {meant}?" if meant else f"the options here are {', '.join(known)}"


def check_text(name: str, value: object) -> None:
    """Raises OptionError unless the value is text."""
    if not isinstance(value, str):
        raise OptionError(f"{name} cannot be {_shown(value)}: give text")


@dataclass(frozen=True, slots=True)
class LoadOptions(_Options):
    """How a model is opened. None: found out from the machine or the file.

    `kv_memory`: GB that the KV cache may take on the CPU, whatever is free; if not given, what is free when it grows.
    `gpu_layers`: how many of the last layers the GPU computes, `all` for the output head, too. `gpu`: which one, by a
    part of its name or its number in `edgellm devices`. `gpu_memory`: GB that may be used there. `gpu_strict`: what the
    GPU cannot do is an error, and not left to the CPU. `cpu_ffn`: the feed-forwards of these layers stay on the CPU.
    """

    threads: int | None = _option(integer(1, 512), None)
    ctx: int | None = _option(integer(1), None)
    gpu_layers: int | str = _option(gpu_layers, "auto")
    gpu: str | None = _option(nonempty_text, None)
    gpu_memory: float | None = _option(number(0.001, 1_000_000), None)
    gpu_strict: bool = _option(boolean, False)
    cpu_ffn: bool = _option(boolean, False)
    kv_type: str = _option(one_of("f16", "f32", "q8_0"), "f16")
    kv_memory: float | None = _option(number(0, 1_000_000, above=True), None)
    engine: str = _option(one_of("edgellm", "llama.cpp"), "edgellm")
    tokenizer_pre: str | None = _option(nonempty_text, None)


@dataclass(frozen=True, slots=True)
class GenerationOptions(_Options):
    """How text is generated.

    `max_tokens` None: until the context is full. `temp` 0: greedy. `top_k` 0, `top_p` 1 and `min_p` 0 switch
    these stages off, as do penalties of 1, 0 and 0. `penalty_last_n`: how many of the last tokens, those of
    the prompt too, the penalties look at; -1 for all. `logit_bias`: token id to what is added to its logit.
    `seed` None: another one each time. `stop`: the texts before which it ends; they may name control tokens.
    `special`: parse special tokens in raw prompts, and show them in the text. `logprobs`: tell the log-probability of
    each token, which takes a look at the whole vocabulary; if it is a number, those of so many likeliest tokens at its
    place as well.
    """

    max_tokens: int | None = _option(integer(0), None)
    temp: float = _option(number(0), 0.8)
    top_k: int = _option(integer(0), 40)
    top_p: float = _option(number(0, 1), 0.95)
    min_p: float = _option(number(0, 1), 0.05)
    repeat_penalty: float = _option(number(0, above=True), 1.0)
    presence_penalty: float = _option(number(-100, 100), 0.0)
    frequency_penalty: float = _option(number(-100, 100), 0.0)
    penalty_last_n: int = _option(integer(-1), 64)
    logit_bias: Mapping[int, float] = _option(logit_bias, {})
    seed: int | None = _option(integer(0, 2**64 - 1), None)
    stop: tuple[str, ...] = _option(stop_strings, ())
    special: bool = _option(boolean, False)
    logprobs: bool | int = _option(logprobs, True)


@dataclass(frozen=True, slots=True)
class ChatOptions(_Options):
    """What becomes of a conversation that outgrows the context.

    `overflow` "stop": nothing is left out. What does not fit is an error, and a reply ends where the context does.
    "drop": the oldest turns are left out, each with its reply, the system prompt stays. Room is made for a reply of
    `max_tokens`, but of a quarter of the context at most. A quarter is left out at once, so that the turns after it
    find what was read in the cache.
    "window": the same, and a reply that has filled the context goes on: once more turns are left out and the rest is
    read again; when only the last question and the reply are left, the system prompt and their last part.
    """

    overflow: str = _option(one_of("stop", "drop", "window"), "stop")


@dataclass(frozen=True, slots=True)
class TemplateOptions(_Options):
    """How messages become the text that a model reads. `template` None: as the model's own template says."""

    template: str | None = _option(nonempty_text, None)


def file_defaults(metadata: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """What a model file says about its sampling: defaults for `GenerationOptions.from_kwargs`, and notices.

    A broken value does not keep anyone from using the file: it is left out, and a notice (one line) tells so.
    """
    checks = {option.name: option.metadata["check"] for option in fields(GenerationOptions)}
    defaults: dict[str, object] = {}
    notices: list[str] = []
    for key, name in FILE_KEYS.items():
        if key not in metadata:
            continue
        value = metadata[key]
        if name == "top_k" and isinstance(value, int) and value == -1:
            value = 0  # a common way to write "off"
        if isinstance(value, float):
            value = float(f"{value:.7g}")  # a float32 of the file: 0.2, not 0.20000000298
        try:
            defaults[name] = checks[name](value)
        except ValueError as error:
            notices.append(f"{key} is {_shown(value)}, not {error}: ignored; to be sure, set {name} yourself")
    return defaults, notices
