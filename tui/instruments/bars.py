"""Bars and sparklines of characters, readable without colours."""

from collections.abc import Sequence

from tui.instruments.numbers import Words

_HEIGHTS = "▁▂▃▄▅▆▇█"
_TIGHT, _NEARLY_FULL = 0.75, 0.9


def share(part: float, whole: float) -> float:
    """`part / whole`, clamped to 0 … 1; 0 if `whole` is 0."""
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0


def bar(filled: float, width: int, style: str = "$text-primary") -> Words:
    """A bar with the share `filled`, to half a character. It is full only at 1, and empty only at 0."""
    halves = max(int(filled * 2 * width), int(filled > 0))
    heavy = "━" * (halves // 2) + "╸" * (halves % 2)
    return ((heavy, style), ("─" * (width - len(heavy)), "$foreground-disabled"))


def level(filled: float) -> str:
    """The style of a gauge: normal, from 75 % on a warning, from 90 % on an error."""
    return "$text-error" if filled >= _NEARLY_FULL else "$text-warning" if filled >= _TIGHT else "$text-primary"


def sparkline(times: Sequence[float], middle: float | None, width: int) -> str:
    """The last `width` times, one character each, the newest at the right.

    The median `middle` sets the scale: a time equal to it has half the height, twice the time and more the full
    height. So a steady stream is a level line, and a new time does not change how older ones look.
    """
    if not middle or not times:
        return " " * width
    return "".join(_HEIGHTS[min(7, int(4 * time / middle))] for time in times[-width:]).rjust(width)
