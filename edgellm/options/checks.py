"""Checks of option values.

A check takes a value of any type and returns it in its proper type. It raises ValueError for an impossible value; the
message says which values are possible.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any


def integer(low: int, high: float = math.inf) -> Callable[[object], int]:
    """A check for a whole number from `low` to `high`."""

    def check(value: object) -> int:
        number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
        if number is None or not low <= number <= high:
            raise ValueError(f"a whole number, {_span(low, high)}")
        return number

    return check


def number(low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> Callable[[object], float]:
    """A check for a finite number from `low` to `high`; `above` excludes `low` itself."""

    def check(value: object) -> float:
        number = _finite(value)
        if not low <= number <= high or (above and number == low):
            raise ValueError(f"a finite number, {f'above {low:g}' if above else _span(low, high)}")
        return number

    return check


def _finite(value: object) -> float:
    """A number as a float; NaN, which is in no range, for everything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:
        return math.nan


def _span(low: float, high: float) -> str:
    if high < math.inf:
        return f"from {low} to {high}"
    return f"at least {low}" if low > -math.inf else "of any size"


class OneOf:
    """The check of an option whose value is one of `names`."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __call__(self, value: object) -> str:
        """The value. Raises ValueError if it is none of the names."""
        if not isinstance(value, str) or value not in self.names:
            *others, last = self.names
            raise ValueError(f"{', '.join(others)} or {last}")
        return value


def one_of(*names: str) -> OneOf:
    """A check for one of these names."""
    return OneOf(names)


def nonempty_text(value: object) -> str:
    """Text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("text that is not empty")
    return value


def draft(value: object) -> str:
    """A name or a path of what drafts, `auto` or `off`. A number is none: in llama.cpp `--draft` is that of drafts."""
    if isinstance(value, os.PathLike):
        return nonempty_text(os.fspath(value))
    if isinstance(value, Integral) or (isinstance(value, str) and value.isdecimal()):
        raise ValueError("a model, auto or off; option draft_max is the number of drafts")
    return nonempty_text(value)


def boolean(value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError("True or False")
    return value


def function_or_none(value: object) -> object:
    """A function, or None."""
    if value is not None and not callable(value):
        raise ValueError("a function")
    return value


def logprobs(value: object) -> bool | int:
    """True, False, or a number of tokens from 1 on; a bool stays a bool."""
    try:
        return value if isinstance(value, bool) else integer(1)(value)
    except ValueError as error:
        raise ValueError("True, False or a whole number, at least 1") from error


def gpu_layers(value: object) -> int | str:
    """A number of layers (as int or digits), `auto` or `all`."""
    if isinstance(value, str) and value in ("auto", "all"):
        return value
    digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10
    try:
        return integer(0)(int(str(value)) if digits else value)
    except ValueError as error:
        raise ValueError("a whole number, at least 0, or auto or all") from error


def stop_strings(value: object) -> tuple[str, ...]:
    """One stop string or several. None may be empty, because it would stop before the first token."""
    several = (value,) if isinstance(value, str) else value
    if not isinstance(several, list | tuple) or not all(isinstance(stop, str) and stop for stop in several):
        raise ValueError("one string or a list of strings, none of them empty")
    return tuple(several)


def logit_bias(value: object) -> dict[int, float]:
    """A mapping of token ids to the numbers that are added to their logits; -inf forbids a token."""
    wanted = "a mapping of token ids to finite numbers or -inf"
    if not isinstance(value, Mapping):
        raise ValueError(wanted)
    token, bias = integer(0), number()
    try:
        return {token(i): -math.inf if b == -math.inf else bias(b) for i, b in value.items()}
    except ValueError as error:
        raise ValueError(wanted) from error


def json_schema(value: object) -> Mapping[str, Any] | bool | type[Any] | str:
    """A JSON schema as a dict, a bool, JSON text, or a class that has one (a dataclass, or a pydantic model)."""
    wanted = "a JSON schema as a dict or as JSON, a dataclass, or a pydantic model"
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except RecursionError:
            raise ValueError(f"{wanted}, with fewer levels") from None
        except ValueError as error:
            raise ValueError(f"{wanted}; {error}") from None
        if not isinstance(found, dict | bool):
            raise ValueError(wanted)
        return value
    if not isinstance(value, Mapping | bool | type):
        raise ValueError(wanted)
    return value


def choices(value: object) -> tuple[str, ...]:
    """Texts of which the reply is one: at least one of them, each once."""
    if not isinstance(value, list | tuple) or not value or not all(isinstance(each, str) and each for each in value):
        raise ValueError("a list of texts, at least one, none of them empty")
    return tuple(dict.fromkeys(value))
