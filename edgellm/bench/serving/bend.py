"""The rate at which goodput bends: the highest one at which enough requests meet the limits of latency.

DistServe calls this rate the goodput of a system, with 90 % of requests (https://arxiv.org/abs/2401.09670, section 2).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

ATTAINMENT = 0.9
"""The share of requests that must meet the limits."""

_MOST_STEPS = 12
_ENOUGH = 1.2
"""The search ends when the one end of the interval is less than this times the other."""


class Bend(NamedTuple):
    """`holds` is the highest rate at which the limits hold, `fails` the lowest one above it at which they do not.

    None where no such rate was measured.
    """

    holds: float | None
    fails: float | None


def bend_of(attainments: Iterable[tuple[float, float]]) -> Bend:
    """The bend, by pairs of a rate and the share of requests that met the limits; rates above a failure count not."""
    holds = None
    for rate, attainment in sorted(attainments):
        if attainment < ATTAINMENT:
            return Bend(holds, rate)
        holds = rate
    return Bend(holds, None)


def search_bend(holds: Callable[[float], bool], first: float, least: float, most: float) -> None:
    """Measure rates by `holds`: doubles or halves `first` until the bend is passed, then halves the interval.

    Rates have three digits, and are from `least` to `most`.
    """
    least = _rounded(least)
    found = Bend(None, None)
    for _ in range(_MOST_STEPS):
        rate = _next_rate(found, first, least, most)
        if rate is None:
            return
        found = found._replace(holds=rate) if holds(rate) else found._replace(fails=rate)


def _next_rate(found: Bend, first: float, least: float, most: float) -> float | None:
    """The next rate to measure; None if the search is at its end."""
    low, high = found
    if low is not None and high is not None:
        return None if high / low < _ENOUGH else _rounded((low + high) / 2)
    if low is not None:
        return None if low >= most else min(_rounded(2 * low), most)
    if high is not None:
        return None if high <= least else max(_rounded(high / 2), least)
    return min(max(_rounded(first), least), most)


def _rounded(rate: float) -> float:
    return float(f"{rate:.3g}")
