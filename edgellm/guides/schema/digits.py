"""Regular expressions of decimal digits: whole numbers and fractions between two bounds, without a sign."""

from collections.abc import Iterator

MAX_DIGITS = 20
"""Digits of the largest number without a bound: those of the largest integer of 64 bits. A model that repeats a digit
comes to an end."""

MAX_FRACTION = 17
"""Digits behind a point: as many as tell any two float64 between 0.1 and 1 apart."""


def either(alternatives: list[str]) -> str:
    """An expression for one of some."""
    return alternatives[0] if len(alternatives) == 1 else f"(?:{'|'.join(alternatives)})"


def natural(low: int, high: int | None) -> str:
    """Whole numbers from `low` to `high`, at least 0, without leading zeros; `high` None is MAX_DIGITS nines."""
    top = 10 ** max(MAX_DIGITS, len(str(low))) - 1 if high is None else high
    return either(list(_by_length(low, top)))


def _by_length(low: int, high: int) -> Iterator[str]:
    """An expression for each number of digits; those of which all numbers are possible are one."""
    full = list[int]()
    for n in range(len(str(low)), len(str(high)) + 1):
        first, last = max(low, 10 ** (n - 1) if n > 1 else 0), min(high, 10**n - 1)
        if n > 1 and (first, last) == (10 ** (n - 1), 10**n - 1):
            full.append(n - 1)
        else:
            yield _between(str(first), str(last))
    if full:
        yield f"[1-9][0-9]{{{full[0]},{full[-1]}}}"


def _between(low: str, high: str) -> str:
    """Digits from `low` to `high`, which have the same length."""
    n = len(low)
    if low == high:
        return low
    if low == "0" * n and high == "9" * n:
        return _some(n, n)
    if low[0] == high[0]:
        return low[0] + _between(low[1:], high[1:])
    parts = [low[0] + _between(low[1:], "9" * (n - 1))]
    if between := _digit(int(low[0]) + 1, int(high[0]) - 1):
        parts.append(between + _some(n - 1, n - 1))
    return either([*parts, high[0] + _between("0" * (n - 1), high[1:])])


def _digit(low: int, high: int) -> str:
    return "" if low > high else str(low) if low == high else f"[{low}-{high}]"


def _some(least: int, most: int) -> str:
    return f"[0-9]{{{least},{most}}}" if most else ""


def fraction(low: str, high: str | None, most: int = MAX_FRACTION) -> str:
    """A point and up to `most` digits, or nothing, so that 0.`low` <= 0.digits <= 0.`high`; `high` None is 1.

    Neither `low` nor `high` ends in a zero, nor is longer than `most`. Empty digits are zero.
    """
    if high is not None:
        n = max(len(low), len(high))
        tails = _tails(low.ljust(n, "0"), high.ljust(n, "0"), most)
    else:
        tails = _at_least(low, most)
    expression = rf"\.{either(tails)}" if tails else ""
    if low.strip("0"):
        return expression
    return f"(?:{expression})?" if expression else ""


def _tails(low: str, high: str, room: int) -> list[str]:
    """Digits, at least one and at most `room`, that as a fraction are from `low` to `high`, both of one length."""
    if not low:
        return [f"0{{1,{room}}}"] if room else []
    if low[0] == high[0]:
        return _with_tails(low[0], not low[1:].strip("0"), _tails(low[1:], high[1:], room - 1))
    parts = _with_tails(low[0], not low[1:].strip("0"), _at_least(low[1:], room - 1))
    if between := _digit(int(low[0]) + 1, int(high[0]) - 1):
        parts.append(between + _some(0, room - 1))
    return parts + _with_tails(high[0], True, _at_most(high[1:], room - 1))


def _at_least(low: str, room: int) -> list[str]:
    if not low.strip("0"):
        return [_some(1, room)] if room else []
    parts = _with_tails(low[0], not low[1:].strip("0"), _at_least(low[1:], room - 1))
    if above := _digit(int(low[0]) + 1, 9):
        parts.append(above + _some(0, room - 1))
    return parts


def _at_most(high: str, room: int) -> list[str]:
    if not high:
        return [f"0{{1,{room}}}"] if room else []
    parts = _with_tails(high[0], True, _at_most(high[1:], room - 1))
    if below := _digit(0, int(high[0]) - 1):
        parts.append(below + _some(0, room - 1))
    return parts


def _with_tails(digit: str, may_end: bool, tails: list[str]) -> list[str]:
    """`digit` and a tail behind it, or no tail if the digits may end there."""
    if not tails:
        return [digit] if may_end else []
    return [f"{digit}(?:{'|'.join(tails)}){'?' if may_end else ''}"]
