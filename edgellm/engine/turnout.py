"""How many threads take part in a step of decode, where other programs want the cores too.

A step has a hundred places where its threads meet. A thread that another program keeps from running for some
milliseconds holds up all others there: beside one busy program, two threads on the two cores of a Zen 5 decode at 0.46
to 0.57 of their own speed, one thread alone at 0.52 to 0.89. So where a team gets much less of the cores than it could
use, a smaller one is tried, and the faster of the two goes on for a while.
"""

from collections.abc import Hashable
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


class Moment(NamedTuple):
    """What the clock shows, and how long all threads of this process have run, in seconds."""

    clock: float
    ran: float

    @classmethod
    def now(cls) -> "Moment":
        """This one."""
        return cls(perf_counter(), process_time())


class _Rival(NamedTuple):
    """A larger team, and its steps a second, while a smaller one is on trial."""

    threads: int
    speed: float


class Turnout:
    """`threads` is how many of the `team` threads the next step is for; tell it with `took` how each step went."""

    def __init__(self, team: int) -> None:
        self.threads = self._team = team
        self._rival: _Rival | None = None
        self._until, self._hold = 0.0, _SHORT
        self._work: Hashable = None
        self._steps, self._clock, self._ran = 0, 0.0, 0.0

    def took(self, work: Hashable, start: Moment, end: Moment) -> None:
        """A step lasted from one moment to the other. What is measured begins anew where its `work` is another's."""
        if work != self._work:
            self._work, self._steps, self._clock, self._ran = work, 0, 0.0, 0.0
            if self._rival:
                self.threads, self._rival = self._rival.threads, None
        self._steps += 1
        self._clock += end.clock - start.clock
        self._ran += end.ran - start.ran
        if self._steps >= _STEPS and self._clock >= _SECONDS:
            speed, lost = self._steps / self._clock, self.threads - self._ran / self._clock
            self._steps, self._clock, self._ran = 0, 0.0, 0.0
            fewer = max(1, self.threads - ceil(lost)) if lost > _LOST else self.threads
            self._choose(speed, fewer, end.clock)

    def _choose(self, speed: float, fewer: int, now: float) -> None:
        """The next team, after steps of this one at so many a second; it seems that nobody would disturb `fewer`."""
        rival, self._rival = self._rival, None
        if rival and speed < rival.speed:
            self._keep(rival.threads, now)
        elif rival and fewer == self.threads:
            self._keep(self.threads, now)
        elif not rival and now < self._until:
            pass
        elif not rival and self.threads < self._team:
            self.threads = self._team  # who may be undisturbed now
        elif fewer < self.threads:
            self._rival = _Rival(self.threads, speed)
            self.threads = fewer
        else:
            self._hold = _SHORT

    def _keep(self, threads: int, now: float) -> None:
        """Stay with so many threads for some time, each time longer."""
        self.threads = threads
        self._until, self._hold = now + self._hold, min(2 * self._hold, _LONG)
