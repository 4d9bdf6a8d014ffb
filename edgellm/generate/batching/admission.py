"""Which requests may go on when no memory is left for all: the oldest ones. The others wait, and are computed again.

A request that is preempted leaves its state to the prefix cache, whose memory others get as they need it; what was lost
is computed again, which changes no bit. It waits until another request has ended. Then one after the other goes on, the
oldest first, until memory is short again: if all went on at once, they would preempt each other again and again. A new
request waits behind those that were preempted. One fails only if it needs more memory than there is for it alone.
"""

from collections.abc import Collection

from edgellm.generate.batching.arrivals import Arrivals
from edgellm.generate.batching.computation import Computation


class Admission:
    """Chooses who waits; `waiting` are the computations that requests wait for. Nothing may be computed meanwhile."""

    def __init__(self, waiting: Collection[Computation], arrivals: Arrivals) -> None:
        self._waiting, self._arrivals = waiting, arrivals
        self._held: dict[Computation, None] = {}  # those that wait for memory
        self._resumed: Computation | None = None  # the last one that went on
        self._short_at = 0  # how many requests had ended when memory was short

    def admitted(self) -> list[Computation]:
        """Those that may be computed now. If none may, one does as soon as no other request decodes."""
        waiting = list(self._waiting)
        self._held = {each: None for each in self._held if each in waiting}
        if self._held:
            self._hold_new(waiting)
            if self._short_at != self._arrivals.ended and self._resumed not in waiting:
                self._resume_oldest()
        found = [each for each in waiting if self.admits(each)]
        if found or not waiting or self._arrivals.away():
            return found
        return [self._resume_oldest()]

    def admits(self, computation: Computation) -> bool:
        """Whether a computation need not wait for memory."""
        return computation not in self._held

    def make_room_for(self, computation: Computation) -> bool:
        """Preempt the youngest request for one that found no memory; False if there is no other.

        If it is the youngest itself, it waits for the others.
        """
        # A prompt that waits behind others has the memory of what was cached of it.
        having = [each for each in list(self._waiting) if self.admits(each) or len(each.sequence)]
        others = [each for each in having if each is not computation]
        if not others and not self._arrivals.away():
            return False
        youngest = max([*others, computation], key=self._age)

        def preempt() -> None:
            if youngest is computation or youngest in self._waiting:
                youngest.preempt()
                self._held[youngest] = None
                self._short_at = self._arrivals.ended

        youngest.hold(preempt)
        return True

    def _hold_new(self, waiting: Collection[Computation]) -> None:
        first = min(map(self._age, self._held))
        self._held |= dict.fromkeys(each for each in waiting if each.is_new and self._age(each) > first)

    def _resume_oldest(self) -> Computation:
        self._resumed = oldest = min(self._held, key=self._age)
        del self._held[oldest]
        return oldest

    def _age(self, computation: Computation) -> float:
        return self._arrivals.number(computation.cancel)
