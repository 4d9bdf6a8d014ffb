"""How many threads take part in a step of decode, where other programs want the cores too.

A step has a hundred places where its threads meet. A thread that another program keeps from running for some
milliseconds holds up all others there: beside one busy program, two threads on the two cores of a Zen 5 decode at 0.46
to 0.57 of their own speed, one thread alone at 0.52 to 0.89. So where a team gets much less of the cores than it could
use, a smaller one is tried, and the faster of the two goes on for a while.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from math import ceil
from time import perf_counter, process_time
from typing import NamedTuple

_STEPS, _SECONDS = 4, 0.1
"""How many steps tell how fast a team is, at least, and how long they take, at least: a system may count the time of a
thread that runs some hundredths of a second late."""

_LOST = 0.5
"""Cores of which a team has nothing, from which on it is disturbed. Of two a busy program takes 1.0 to 1.2, with the
waits that it brings; nobody 0 to 0.3."""

_SHORT, _LONG = 0.5, 4.0
"""Seconds after which a choice is questioned, at first, and when it was confirmed several times."""


class TimeSample(NamedTuple):
    """What the clock shows, and how long all threads of this process have run, in seconds."""

    clock: float
    ran: float

    @classmethod
    def now(cls) -> "TimeSample":
        """This one."""
        return cls(perf_counter(), process_time())


class _Trial(NamedTuple):
    """A smaller team is tried with some work until a moment; the larger one made so many steps of that a second."""

    work: Hashable
    until: float
    threads: int
    speed: float


@dataclass
class _Window:
    """Steps of the same work by the same team, how long they record_step, and how long its threads ran."""

    steps: int = 0
    clock: float = 0.0
    ran: float = 0.0

    def add(self, start: TimeSample, end: TimeSample) -> bool:
        """Count a step; whether there are enough."""
        self.steps += 1
        self.clock += end.clock - start.clock
        self.ran += end.ran - start.ran
        return self.steps >= _STEPS and self.clock >= _SECONDS


class AdaptiveThreads:
    """`threads` is how many of the `team` threads the next step is for; tell it with `record_step` how each step went."""

    def __init__(self, team: int) -> None:
        self.threads = self._team = team
        self._trial: _Trial | None = None
        self._until, self._hold = 0.0, _SHORT
        self._windows: dict[Hashable, _Window] = {}

    def record_step(self, work: Hashable, start: TimeSample, end: TimeSample) -> None:
        """A step lasted from one moment to the other. Steps of different `work` may take turns: each is measured alone.

        A trial whose work does not come for some seconds ends with the larger team.
        """
        if self._trial and work != self._trial.work:
            if end.clock >= self._trial.until:
                self._keep(self._trial.threads, end.clock)
            return
        window = self._windows.setdefault(work, _Window())
        if window.add(start, end):
            speed, lost = window.steps / window.clock, self.threads - window.ran / window.clock
            fewer = max(1, self.threads - ceil(lost)) if lost > _LOST else self.threads
            self._choose(work, speed, fewer, end.clock)

    def _choose(self, work: Hashable, speed: float, fewer: int, now: float) -> None:
        """The next team, after steps of this one at so many a second; it seems that nobody would disturb `fewer`."""
        trial = self._trial
        if trial and speed < trial.speed:
            self._keep(trial.threads, now)
        elif trial and fewer == self.threads:
            self._keep(self.threads, now)
        elif not trial and now < self._until:
            self._begin(self.threads)
        elif not trial and self.threads < self._team:
            self._begin(self._team)  # who may be undisturbed now
        elif fewer < self.threads:
            self._begin(fewer, _Trial(work, now + _LONG, self.threads, speed))
        else:
            self._begin(self.threads)
            self._hold = _SHORT

    def _keep(self, threads: int, now: float) -> None:
        """Stay with so many threads for some time, each time longer."""
        self._begin(threads)
        self._until, self._hold = now + self._hold, min(2 * self._hold, _LONG)

    def _begin(self, threads: int, trial: _Trial | None = None) -> None:
        """Measure anew, with so many threads."""
        self.threads, self._trial = threads, trial
        self._windows.clear()
