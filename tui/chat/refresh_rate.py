"""How often the screen looks at the model."""

from collections.abc import Callable
from time import thread_time

_SHARE = 0.04  # of one core: where all of them compute, what the screen takes is missing from the reply
SHORTEST_S, _LONGEST_S = 1 / 20, 1 / 4


class RefreshRate:
    """The time between two looks: so long that the thread of the screen takes a small share of a core.

    A fast computer looks 20 times a second, a slow one about 4. Counted is all CPU time of the calling thread.
    """

    def __init__(self, clock: Callable[[], float] = thread_time) -> None:
        self._clock, self._at = clock, clock()
        self._cost_s = 0.0

    def wait(self) -> float:
        """The seconds until the next look, as the last ones have cost; called once for each."""
        at = self._clock()
        cost = min(at - self._at, _SHARE * _LONGEST_S)  # keys may have come in between, or an hour
        self._at = at
        self._cost_s += (cost - self._cost_s) / 4
        return max(self._cost_s / _SHARE, SHORTEST_S)
