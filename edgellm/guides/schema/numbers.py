"""Numbers between bounds, and multiples: which are possible, and regular expressions of how they are written.

A reply is read with float64 numbers, so what is told apart here must be told apart there: where a bound itself is
excluded, numbers have only so many digits behind the point that none of them is rounded to the bound.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from math import ceil, floor, lcm

from edgellm.fmt import printable
from edgellm.guides.schema.digits import MAX_DIGITS, MAX_FRACTION, either, fraction, natural

Value = int | Decimal

MAX_LISTED = 1000
"""Multiples between two bounds that a grammar lists one by one."""

_MAX_BOUND_DIGITS = 40
_FLOAT_DIGITS = 15  # decimal numbers of so many digits are all different as float64
_EXACT = Context(prec=200)
_ANY_INTEGER = rf"(?:0|-?[1-9][0-9]{{0,{MAX_DIGITS - 1}}})"
_ANY_NUMBER = rf"-?(?:0|[1-9][0-9]{{0,{MAX_DIGITS - 1}}})(?:\.[0-9]{{1,{MAX_FRACTION}}})?(?:[eE][+-]?[0-9]{{1,2}})?"


class NumberError(Exception):
    """Numbers that cannot be written as an expression, and why."""


@dataclass(frozen=True)
class Numbers:
    """Numbers from `low` to `high`, without these where they are open; whole ones alone if `integer`.

    All are multiples of `step`, 0 for any.
    """

    low: Value | None = None
    high: Value | None = None
    low_open: bool = False
    high_open: bool = False
    integer: bool = False
    step: Fraction = Fraction(0)

    def __and__(self, other: "Numbers") -> "Numbers":
        low = max((self, other), key=lambda each: (each.low is not None, each.low or 0, each.low_open))
        high = min((self, other), key=lambda each: (each.high is None, each.high or 0, not each.high_open))
        return Numbers(
            low.low,
            high.high,
            low.low_open,
            high.high_open,
            self.integer or other.integer,
            _common(self.step, other.step) if self.step and other.step else self.step or other.step,
        )

    def __contains__(self, value: Value) -> bool:
        if self.low is not None and not (value > self.low or (value == self.low and not self.low_open)):
            return False
        if self.high is not None and not (value < self.high or (value == self.high and not self.high_open)):
            return False
        exact = Fraction(value)
        return (not self.integer or exact.denominator == 1) and (not self.step or (exact / self.step).denominator == 1)

    def closed(self) -> "Numbers":
        """The same numbers as they can be written, with bounds that belong to them. Raises NumberError."""
        unit = Decimal(1) if self.integer else Decimal(1).scaleb(-self.fraction_digits())
        low = None if self.low is None else self._inner(self.low, self.low_open, unit, ceil)
        high = None if self.high is None else self._inner(self.high, self.high_open, -unit, floor)
        return replace(self, low=low, high=high, low_open=False, high_open=False)

    def _inner(self, bound: Value, is_open: bool, step: Decimal, rounding: Callable[[Value], int]) -> Value:
        """The first number within a bound, in the direction of `step`."""
        first = rounding(bound) if self.integer else Decimal(bound)
        if is_open and first == bound:
            return first + int(step) if isinstance(first, int) else _EXACT.add(first, step)
        return first

    def fraction_digits(self) -> int:
        """The most digits behind a point. Raises NumberError if a bound has too many digits to be excluded."""
        most = MAX_FRACTION
        for bound, is_open in ((self.low, self.low_open), (self.high, self.high_open)):
            if bound is None or not is_open:
                continue
            before, behind = _written(bound)
            room = _FLOAT_DIGITS - (len(before) if before != "0" else 0)
            if len(behind) > room:
                raise NumberError(f"excludes {printable(str(bound))}, which has more than {_FLOAT_DIGITS} digits")
            most = min(most, room)
        return most

    def listed(self) -> list[Value] | None:
        """The numbers one by one, if they are multiples between two bounds, and not too many; else None."""
        own = self.closed()
        step = _common(self.step, Fraction(1)) if self.integer else self.step
        if not step or own.low is None or own.high is None:
            return None
        first, last = -(-Fraction(own.low) // step), Fraction(own.high) // step
        if last - first >= MAX_LISTED:
            return None
        values = [n * step for n in range(first, last + 1)]
        return [int(each) if each.denominator == 1 else _decimal(each) for each in values]

    def check(self) -> None:
        """Raises NumberError if no expression matches exactly these numbers."""
        for bound in (self.low, self.high):
            if bound is not None and len("".join(_written(bound))) > _MAX_BOUND_DIGITS:
                raise NumberError(f"has a limit with more than {_MAX_BOUND_DIGITS} digits")
        if self.listed() is None and not self.is_empty():
            self.expressions()

    def is_empty(self) -> bool:
        """Whether there is no such number."""
        own = self.closed()
        if (listed := self.listed()) is not None:
            return not listed
        return own.low is not None and own.high is not None and own.low > own.high

    def expressions(self) -> list[str]:
        """Regular expressions: a number is written as one, if all of them match. Raises NumberError."""
        own = self.closed()
        if self.step:
            return [*replace(self, step=Fraction(0)).expressions(), _multiples(self.step, self.integer)]
        if own.low is None and own.high is None:
            return [_ANY_INTEGER if self.integer else _ANY_NUMBER]
        return [_integers(own.low, own.high) if self.integer else _decimals(own, self.fraction_digits())]


def _decimal(value: Fraction) -> Decimal:
    """A fraction whose denominator divides a power of ten."""
    return _EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


def _common(one: Fraction, other: Fraction) -> Fraction:
    """The smallest number that is a multiple of both."""
    denominator = lcm(one.denominator, other.denominator)
    return Fraction(lcm(int(one * denominator), int(other * denominator)), denominator)


def _written(value: Value) -> tuple[str, str]:
    """The digits of a number, without its sign, before the point and behind it, without zeros at the end."""
    before, _, behind = f"{Decimal(value).copy_abs():f}".partition(".")
    return before.lstrip("0") or "0", behind.rstrip("0")


def _integers(low: Value | None, high: Value | None) -> str:
    least = None if low is None else int(low)
    most = None if high is None else int(high)
    parts = list[str]()
    if least is None or least < 0:
        below = None if least is None else -least
        above = 1 if most is None or most >= 0 else -most
        parts.append(f"-{natural(above, below)}")
    if most is None or most >= 0:
        parts.append(natural(max(0, least or 0), most))
    return either(parts)


def _decimals(numbers: Numbers, digits: int) -> str:
    low, high = numbers.low, numbers.high
    parts = list[str]()
    if low is None or low < 0:
        nearest = Decimal(0) if high is None or high >= 0 else Decimal(high).copy_negate()
        parts.append(f"-{_magnitudes(nearest, None if low is None else Decimal(low).copy_negate(), digits)}")
    if high is None or high >= 0:
        parts.append(_magnitudes(max(Decimal(0), Decimal(low or 0)), high, digits))
    return either(parts)


def _magnitudes(low: Value, high: Value | None, digits: int) -> str:
    """Numbers that are not negative, from `low` to `high`, with at most so many digits behind the point."""
    first, above = _written(low)
    digits = max(digits, len(above))
    if high is None:
        return either(
            [first + fraction(above, None, digits), natural(int(first) + 1, None) + fraction("", None, digits)]
        )
    last, below = _written(high)
    digits = max(digits, len(below))
    if first == last:
        return first + fraction(above, below, digits)
    parts = [first + fraction(above, None, digits)]
    if int(first) + 1 < int(last):
        parts.append(natural(int(first) + 1, int(last) - 1) + fraction("", None, digits))
    return either([*parts, last + fraction("", below, digits)])


def _multiples(step: Fraction, integer: bool) -> str:
    """An expression for the multiples of a step whose last digits tell them. Raises NumberError for others."""
    step = _common(step, Fraction(1)) if integer else step
    places = len(_written(_decimal(step))[1])
    unit = int(step * 10**places)  # a multiple is one if its digits are a multiple of `unit`
    n = _last_digits(unit)
    if n is None or 10**n // unit > MAX_LISTED or 0 < places < n:
        raise NumberError(
            "has a multipleOf that no few last digits tell; give minimum and maximum, so that there are few"
        )
    endings = [f"{each:0{n}}" for each in range(0, 10**n, unit)] if n else [""]
    if places:
        some = f"[0-9]{{{places - n}}}" if n else f"[0-9]{{1,{places}}}"
        return rf"-?[0-9]+(?:\.{some}{either(endings)})?"
    shorter = [str(int(each)) for each in endings if each.startswith("0")]
    return f"-?{either([*shorter, f'[0-9]*{either(endings)}'])}" if n else "-?[0-9]+"


def _last_digits(unit: int) -> int | None:
    """How many last digits tell whether a whole number is a multiple of `unit`; None if all digits are needed."""
    n = 0
    while 10**n % unit:
        n += 1
        if n > _MAX_BOUND_DIGITS:
            return None
    return n
