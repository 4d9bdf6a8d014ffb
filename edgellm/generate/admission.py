"""Which requests may go on when no memory is left for all: the oldest ones. The others wait, and are computed again.

A request that is preempted leaves its state to the prefix cache, whose memory others get as they need it. It waits
until another request has ended; then what was lost is computed again, which changes no bit. So a new request for which
there is no memory waits, and one fails only if it needs more than there is for it alone.
"""

from collections.abc import Collection

from edgellm.generate.arrivals import Arrivals
from edgellm.generate.computation import Computation


class Admission:
    """Chooses who waits; `waiting` are the computations that requests wait for. Nothing may be computed meanwhile."""

    def __init__(self, waiting: Collection[Computation], arrivals: Arrivals) -> None:
        self._waiting, self._arrivals = waiting, arrivals
        self._preempted: dict[Computation, int] = {}  # with how many requests had ended before

    def admitted(self) -> list[Computation]:
        """Those that may be computed now. If none may, one does as soon as no other request decodes."""
        waiting = list(self._waiting)
        self._preempted = {each: ended for each, ended in self._preempted.items() if each in waiting}
        found = [each for each in waiting if self.admits(each)]
        if found or not waiting or self._arrivals.away():
            return found
        oldest = min(waiting, key=self._age)
        del self._preempted[oldest]
        return [oldest]

    def admits(self, computation: Computation) -> bool:
        """Whether a computation was not preempted, or another request has ended since."""
        return self._preempted.get(computation, -1) != self._arrivals.ended

    def make_room_for(self, computation: Computation) -> bool:
        """Preempt the youngest request for one that found no memory; False if there is no other.

        If it is the youngest itself, it waits for the others.
        """
        others = [each for each in list(self._waiting) if each is not computation and self.admits(each)]
        if not others and not self._arrivals.away():
            return False
        youngest = max([*others, computation], key=self._age)
        runs, youngest.running = youngest.running, True  # its request does not touch the sequence as long as that is so
        if youngest is computation or youngest in self._waiting:  # one that left before has seen that nothing runs
            youngest.preempt()
            self._preempted[youngest] = self._arrivals.ended
        youngest.running = runs
        return True

    def _age(self, computation: Computation) -> float:
        return self._arrivals.number(computation.cancel)
