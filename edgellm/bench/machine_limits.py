"""The machine's limits in each round of a benchmark: memory bandwidth, matmul bandwidth and int8 peak."""

from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from statistics import median

from edgellm.perf.bandwidth import int8_peak
from edgellm.perf.cpu_share import CPUShare
from edgellm.perf.machine_profile import MEMORY, save_profile

_READS = 5
"""Reads of the memory before a slice of decode steps, and after it. The bandwidth is the bytes of all reads divided by
their time, as decoding is timed: nothing sustains for half a second what shared memory gives in its best moments.
Measured at 34 GB/s, with memory reads in place of decoding (24 slices): MBU 1.00, and 0.97 with the best of
five reads as the bandwidth."""

_MIN_ROUNDS = 3
"""Undisturbed rounds, seconds apart, after which the medians are saved in the machine profile."""


class MachineLimits:
    """Measures what `threads` threads can do. `read` and `multiply` are from `edgellm.perf.bandwidth`.

    The medians of at least three undisturbed rounds are saved for `edgellm plan`.
    """

    def __init__(self, threads: int, read: Callable[[], float], multiply: Callable[[], dict[str, float]]) -> None:
        self._threads, self._read, self._multiply = threads, read, multiply
        self._rounds: list[dict[str, list[float]]] = []  # the speeds of each undisturbed round, by name

    def begin_round(self) -> float:
        """Returns the int8 multiply-adds per second, and records the matmul bandwidths.

        Raises EdgeLLMError if threads or memory are not available.
        """
        self._share, self._speeds = CPUShare(self._threads), defaultdict[str, list[float]](list)
        peak = int8_peak(self._threads)  # outside of `recording`, as it starts threads first
        with self._share.recording():
            for name, speed in self._multiply().items():
                self._speeds[name].append(speed)
        return peak

    def read_memory(self) -> list[float]:
        """The memory bandwidth now, in bytes per second, of several reads; they are recorded, too."""
        with self._share.recording():
            reads = [self._read() for _ in range(_READS)]
        self._speeds[MEMORY] += reads
        return reads

    def end_round(self) -> bool:
        """Whether the round was undisturbed: no other program took the CPU from the measuring threads."""
        undisturbed = self._share.undisturbed
        if undisturbed:
            self._rounds.append(self._speeds)
            if len(self._rounds) >= _MIN_ROUNDS:
                speeds = {name: median(chain(*(each[name] for each in self._rounds))) for name in self._speeds}
                save_profile(self._threads, speeds)
        return undisturbed
