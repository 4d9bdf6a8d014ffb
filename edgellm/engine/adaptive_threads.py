"""Adaptive number of threads for decode steps, where other programs use the cores too.

A step has about a hundred barriers. If another program keeps one thread from running for some milliseconds, all others
wait for it. Measured on Zen 5, two cores, beside one busy program: two threads decode at 0.46 to 0.57 of their own
speed, one thread alone at 0.52 to 0.89. So if the threads get much less CPU time than they could use, fewer threads
are tried, and the faster number is kept for a while.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from math import ceil
from time import perf_counter, process_time
from typing import NamedTuple

_MIN_STEPS, _MIN_SECONDS = 4, 0.1
"""The least steps and seconds that give a speed: some systems update the CPU time of a running thread a few hundredths
of a second late."""

_DISTURBED = 0.5
"""If the threads lose this many cores, they count as disturbed. Measured: 1.0 to 1.2 of two cores with one
busy program, waits included; 0 to 0.3 with none."""

_MIN_HOLD_S, _MAX_HOLD_S = 0.5, 4.0
"""Seconds for which a choice is kept: at first, and after it was confirmed several times."""


class TimeSample(NamedTuple):
    """Seconds of the clock, and CPU seconds of all threads of this process."""

    clock: float
    cpu: float

    @classmethod
    def now(cls) -> "TimeSample":
        """The current times."""
        return cls(perf_counter(), process_time())


class _Trial(NamedTuple):
    """A trial of fewer threads for steps of one kind, until a time; `threads` threads made `speed` steps a second."""

    kind: Hashable
    until: float
    threads: int
    speed: float


@dataclass
class _Window:
    """Steps of one kind with the same threads, their seconds, and the CPU seconds of the threads."""

    steps: int = 0
    clock: float = 0.0
    cpu: float = 0.0

    def add(self, start: TimeSample, end: TimeSample) -> bool:
        """Count a step; return whether there are enough."""
        self.steps += 1
        self.clock += end.clock - start.clock
        self.cpu += end.cpu - start.cpu
        return self.steps >= _MIN_STEPS and self.clock >= _MIN_SECONDS


class AdaptiveThreads:
    """`threads`, up to `max_threads`, is the number for the next step; call `record_step` after each step."""

    def __init__(self, max_threads: int) -> None:
        self.threads = self._max_threads = max_threads
        self._trial: _Trial | None = None
        self._keep_until, self._hold_s = 0.0, _MIN_HOLD_S
        self._windows: dict[Hashable, _Window] = {}

    def record_step(self, kind: Hashable, start: TimeSample, end: TimeSample) -> None:
        """Record the times of a step. Steps of different kinds may alternate: each kind is timed on its own.

        A trial ends with the larger number of threads if no step of its kind comes for some seconds.
        """
        if self._trial and kind != self._trial.kind:
            if end.clock >= self._trial.until:
                self._keep(self._trial.threads, end.clock)
            return
        window = self._windows.setdefault(kind, _Window())
        if window.add(start, end):
            speed, lost = window.steps / window.clock, self.threads - window.cpu / window.clock
            fewer = max(1, self.threads - ceil(lost)) if lost > _DISTURBED else self.threads
            self._choose(kind, speed, fewer, end.clock)

    def _choose(self, kind: Hashable, speed: float, fewer: int, now: float) -> None:
        """Choose the next number of threads, after steps at `speed` a second; `fewer` would run undisturbed."""
        trial = self._trial
        if trial and speed < trial.speed:
            self._keep(trial.threads, now)
        elif trial and fewer == self.threads:
            self._keep(self.threads, now)
        elif not trial and now < self._keep_until:
            self._begin(self.threads)
        elif not trial and self.threads < self._max_threads:
            self._begin(self._max_threads)  # they may run undisturbed now
        elif fewer < self.threads:
            self._begin(fewer, _Trial(kind, now + _MAX_HOLD_S, self.threads, speed))
        else:
            self._begin(self.threads)
            self._hold_s = _MIN_HOLD_S

    def _keep(self, threads: int, now: float) -> None:
        """Keep a number of threads for some time, each time for longer."""
        self._begin(threads)
        self._keep_until, self._hold_s = now + self._hold_s, min(2 * self._hold_s, _MAX_HOLD_S)

    def _begin(self, threads: int, trial: _Trial | None = None) -> None:
        """Measure anew with a number of threads."""
        self.threads, self._trial = threads, trial
        self._windows.clear()
