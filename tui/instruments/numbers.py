"""Formatting numbers with a bounded width, so that padding keeps a line still while they change."""

from math import ceil
from typing import TypeAlias

Words: TypeAlias = tuple[tuple[str, str], ...]
"""Parts of a line, each a text and its Textual style."""

UNKNOWN = "–"


def seconds(value: float | None) -> str:
    """`0.21 s`, `12.3 s`, `123 s`: three digits, at most 6 characters below 1,000 s."""
    if value is None:
        return UNKNOWN
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{digits}f} s"


def remaining(value: float | None) -> str:
    """A remaining time: `12 s`, `1:40 min`; at least 1 s."""
    if value is None:
        return UNKNOWN
    whole = max(1, ceil(value))
    return f"{whole} s" if whole < 60 else f"{whole // 60}:{whole % 60:02} min"


def speed(value: float | None, unit: str = "t/s") -> str:
    """Tokens per second, at most 9 characters below 10,000: `45.3 t/s`, `1,234 t/s`."""
    if value is None:
        return UNKNOWN
    return f"{value:,.1f} {unit}" if value < 999.95 else f"{value:,.0f} {unit}"


def milliseconds(value: float | None) -> str:
    """Two digits or more, at most 3 characters below a second: `0.6`, `24`, `240`."""
    if value is None:
        return UNKNOWN
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def part_of(part: int, whole: int) -> str:
    """`1,912 of 2,048`, with the part padded to the width of the whole."""
    total = f"{whole:,}"
    return f"{part:>{len(total)},} of {total}"


def ratio(value: float | None) -> str:
    """Two decimals: `0.84`."""
    return UNKNOWN if value is None else f"{value:.2f}"
