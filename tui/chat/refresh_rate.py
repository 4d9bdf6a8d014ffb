"""How often the screen is refreshed while a reply is written."""

from collections.abc import Callable
from time import thread_time

_CPU_SHARE = 0.04
"""The share of one core for the screen: where all cores compute the reply, it slows the reply by as much."""

SHORTEST_S, _LONGEST_S = 1 / 20, 1 / 4


class RefreshRate:
    """Adapts the time between two refreshes so that the calling thread takes a small share of a core.

    A fast computer refreshes 20 times a second, a slow one about 4 times. `clock` returns the CPU time of the calling
    thread in seconds.
    """

    def __init__(self, clock: Callable[[], float] = thread_time) -> None:
        self._clock, self._at = clock, clock()
        self._cost_s = 0.0

    def wait(self) -> float:
        """The seconds until the next refresh, from the CPU time of the last ones. Called once for each refresh."""
        at = self._clock()
        cost = min(at - self._at, _CPU_SHARE * _LONGEST_S)  # keys may have been handled in between
        self._at = at
        self._cost_s += (cost - self._cost_s) / 4
        return max(self._cost_s / _CPU_SHARE, SHORTEST_S)
