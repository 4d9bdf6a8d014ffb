"""What limits both sides of a benchmark, in each of its rounds; and what is kept of that."""

from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from statistics import median

from edgellm.perf.bandwidth import CPUShare, int8_peak
from edgellm.perf.machine_profile import MEMORY, keep

_READS = 5
"""Reads of the memory before a turn, and after it. Its bandwidth is what they read together in all their time: decoding
is timed so, too, and nothing keeps up for half a second what memory that others share gives in its best moments. With
the best of five reads before a turn for its bandwidth, more such reads in place of decoding had an MBU of 0.97 (median
of 24 turns, 34 GB/s), with this 1.00."""

_ENOUGH = 3
"""Undisturbed rounds, which lie seconds apart, that tell how fast this machine usually is."""


class Limits:
    """What so many threads read, multiply and add: `read` and `multiply` are those of `edgellm.perf.bandwidth`.

    What is read and multiplied in three undisturbed rounds or more is kept for `edgellm plan`.
    """

    def __init__(self, threads: int, read: Callable[[], float], multiply: Callable[[], dict[str, float]]) -> None:
        self._threads, self._read, self._multiply = threads, read, multiply
        self._rounds: list[dict[str, list[float]]] = []  # the speeds of those that were undisturbed, by name

    def begin(self) -> float:
        """Begin a round: the int8 products in a second. How fast weights are multiplied is noted, too.

        Raises EdgeLLMError where threads or memory cannot be had.
        """
        self._share, self._found = CPUShare(self._threads), defaultdict[str, list[float]](list)
        peak = int8_peak(self._threads)  # not watched, as it starts threads first
        with self._share.watched():
            for name, speed in self._multiply().items():
                self._found[name].append(speed)
        return peak

    def reads(self) -> list[float]:
        """What the memory gives now, in bytes a second; it is noted, too, for what to expect at other times."""
        with self._share.watched():
            found = [self._read() for _ in range(_READS)]
        self._found[MEMORY] += found
        return found

    def end(self) -> bool:
        """End a round; whether the threads that read and multiplied had the CPU for themselves."""
        undisturbed = self._share.undisturbed
        if undisturbed:
            self._rounds.append(self._found)
            if len(self._rounds) >= _ENOUGH:
                speeds = {name: median(chain(*(each[name] for each in self._rounds))) for name in self._found}
                keep(self._threads, speeds)
        return undisturbed
