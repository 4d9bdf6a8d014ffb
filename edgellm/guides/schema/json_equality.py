"""JSON values of replies: read strictly, and compared by their values."""

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any


def json_of(text: str) -> Any:
    """The value of a text that is JSON and nothing else. Raises ValueError, also for NaN and infinite numbers."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("too many levels") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    return number if math.isfinite(number := float(text)) else _refuse(text)


def same(value: Any, other: Any) -> bool:
    """Whether two JSON values are equal; numbers by their values, and true is no number."""
    if is_number(value) and is_number(other):
        return exact(value) == exact(other)
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(same(each, other[key]) for key, each in value.items())
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(same, value, other))
    return type(value) is type(other) and bool(value == other)


def is_number(value: Any) -> bool:
    """Whether a value is a number; true is none."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def exact(number: float | Decimal) -> Fraction:
    """A number without rounding; of a float that which its shortest text says."""
    return Fraction(str(number) if isinstance(number, float) else number)
