"""Shares and times as lines of characters that need no colour to be read."""

from collections.abc import Sequence

from tui.instruments.numbers import Words

_HEIGHTS = "▁▂▃▄▅▆▇█"
_TIGHT, _NEARLY_FULL = 0.75, 0.9


def share(part: float, whole: float) -> float:
    """`part / whole` between 0 and 1; 0 where there is no whole."""
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0


def bar(filled: float, width: int, style: str = "$text-primary") -> Words:
    """A line of which the share `filled` is heavy, to half a character: full at 1 alone, and empty at 0 alone."""
    halves = max(int(filled * 2 * width), int(filled > 0))
    heavy = "━" * (halves // 2) + "╸" * (halves % 2)
    return ((heavy, style), ("─" * (width - len(heavy)), "$foreground-disabled"))


def level(filled: float) -> str:
    """The style of a gauge: calm, then warning, then alarm."""
    return "$text-error" if filled >= _NEARLY_FULL else "$text-warning" if filled >= _TIGHT else "$text-primary"


def sparkline(times: Sequence[float], middle: float | None, width: int) -> str:
    """The last `width` times, one character each, the newest at the right.

    The scale is fixed by `middle`, their median: a time like it stands half high, from twice as long on it is full. So
    a steady stream is a level line, and a new time does not change how the older ones look.
    """
    if not middle or not times:
        return " " * width
    return "".join(_HEIGHTS[min(7, int(4 * time / middle))] for time in times[-width:]).rjust(width)
