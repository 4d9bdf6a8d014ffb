"""How long it takes to draw a draft, with the sampling options and the guide of one reply."""

import math

_COLD = 2
"""Draws until they are believed where they took longer than expected: the first one may fill a cache."""

_WEIGHT = 0.1
"""That of a draw in the moving average."""

_MOST = 2.0
"""A draw that takes longer than this many times the average was disturbed, and counts as one that took that."""


class DrawTime:
    """A moving average; until there are `_COLD` draws, no more than what is expected."""

    def __init__(self) -> None:
        self._seconds, self._least, self._count = math.inf, math.inf, 0

    @property
    def seconds(self) -> float:
        """Expected seconds of a draw; 0 until anything is known."""
        return self._seconds if self._seconds < math.inf else 0.0

    def expect(self, seconds: float) -> None:
        """A draw of the target took so long: the fastest of them is what one of a draft is expected to take."""
        if self._count < _COLD:
            self._seconds = min(self._seconds, seconds)

    def record(self, seconds: float) -> None:
        """A draw took so long."""
        self._count += 1
        self._least = min(self._least, seconds)
        if self._count < _COLD:
            self._seconds = min(self._seconds, seconds)
        elif self._count == _COLD:
            self._seconds = self._least
        else:
            self._seconds += _WEIGHT * (min(seconds, _MOST * self._seconds) - self._seconds)
