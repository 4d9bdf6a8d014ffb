"""Numbers in schemas, as llguidance reads them: float64."""

from collections.abc import Mapping
from decimal import Decimal
from math import ceil, floor
from typing import Any

from edgellm.guides.schema.document import Pointer, fail

Number = int | Decimal

LARGEST_INTEGER = 2**53 - 1
"""The largest of the integers that programs agree on (RFC 8259, section 6). Integers without a bound end there, so that
a model that repeats a digit comes to an end."""

_DIGITS = 15
"""Decimal numbers of so many digits are all different as float64."""

_MAX_STEP = 2**32 - 1  # llguidance keeps the digits of multipleOf in 32 bits


def check_number(pointer: Pointer, value: Number) -> None:
    """Raise GuideError unless a number is the one that float64 has, so that llguidance reads it as it is."""
    if not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
        fail(pointer, f"has a number beyond {LARGEST_INTEGER:,}, which no guide follows; give a smaller one")
    if Decimal(str(float(value))) != value:
        fail(pointer, "has a number that float64 has not; give one of at most 15 digits")


def bounds(pointer: Pointer, keywords: Mapping[str, Any], is_integer: bool) -> dict[str, Any]:
    """`minimum` and `maximum` for those of a subschema and their exclusive forms. Raises GuideError.

    llguidance includes some bounds that are to be excluded (3, of numbers from 3 to 3.5). The bound in place of one is
    the next number with as many digits as float64 tells apart.
    """
    lows = [_within(pointer, keywords, "minimum", 0), _within(pointer, keywords, "exclusiveMinimum", 1)]
    highs = [_within(pointer, keywords, "maximum", 0), _within(pointer, keywords, "exclusiveMaximum", -1)]
    low = max((each for each in lows if each is not None), default=None)
    high = min((each for each in highs if each is not None), default=None)
    if is_integer:
        low = -LARGEST_INTEGER if low is None else ceil(low)
        high = LARGEST_INTEGER if high is None else floor(high)
    return {name: plain(value) for name, value in (("minimum", low), ("maximum", high)) if value is not None}


def _within(pointer: Pointer, keywords: Mapping[str, Any], name: str, direction: int) -> Number | None:
    """A bound that is included, in place of one that is excluded where `direction` is not 0."""
    value: Number | None = keywords.get(name)
    if value is None:
        return None
    check_number((*pointer, name), value)
    if not direction:
        return value
    _, digits, exponent = Decimal(value).as_tuple()
    before = max(0, len(digits) + int(exponent)) if value else 0
    places = _DIGITS - before
    if -int(exponent) > places:
        fail((*pointer, name), f"excludes a number of more than {_DIGITS} digits; give one that is shorter")
    return Decimal(value) + direction * Decimal(1).scaleb(-places)


def plain(value: Any) -> Any:
    """A JSON value with float in place of Decimal, and int where that is the same number."""
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def check_step(pointer: Pointer, step: Number) -> None:
    """Raise GuideError for a `multipleOf` that llguidance cannot follow."""
    digits = float(step)
    while digits != int(digits):
        digits *= 10  # in float64, as there
    if not 0 < digits <= _MAX_STEP:
        fail(pointer, "is no number above 0 of few digits; give one, such as 0.01")
