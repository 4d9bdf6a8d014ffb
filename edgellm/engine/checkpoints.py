"""Checkpoints: lengths to which sequences with windows or recurrent layers can go back.

A checkpoint with windows takes KV pages, so that a sequence has MAX_CHECKPOINTS of these at most. One with a state
takes a state page, and the number of these is limited over all sequences (see
`edgellm.engine.recurrent_states.StatePool`). Which checkpoints to forget is decided before pages for new ones are
reserved, so that the limit holds at any moment.
"""

from collections.abc import Iterable
from collections.abc import Sequence as Ids
from dataclasses import dataclass
from itertools import count
from weakref import WeakSet

from edgellm.engine.kv_pages import MAX_CHECKPOINTS, PageTable
from edgellm.engine.recurrent_states import NEEDED_STATE_PAGES, StatePage, StatePool


@dataclass(frozen=True, eq=False)
class SequenceCheckpoint:
    """A length to which a sequence can go back. Forks share it.

    It has the page tables of KV groups with windows, by group, at that length, and the state of recurrent layers. With
    `retry` it is there to compute the last prompt's end again, and is forgotten when another prompt has one. So is the
    one that is `held` behind a reply, in which it moves on.
    """

    length: int
    tables: dict[int, PageTable]
    state: StatePage | None
    retry: bool
    held: bool = False

    def reach(self, n: int) -> int:
        """The largest length up to `n` whose windows and state the checkpoint holds; 0 if there is none."""
        if self.state and n < self.length:
            return 0
        n = min(n, self.length)
        return n if all(table.reaches(n) for table in self.tables.values()) else 0


class Checkpoints:
    """The checkpoints of one sequence, in order of length.

    `used` is the time of its last segment, as the budget counts it. `planned` are the checkpoints that this segment
    adds, by length: whether each is for a retry.
    """

    def __init__(self, budget: "CheckpointBudget", points: Ids[SequenceCheckpoint] = ()) -> None:
        self.budget, self.points, self.used = budget, list(points), 0
        self.planned: dict[int, bool] = {}

    def fork(self) -> "Checkpoints":
        """The checkpoints of another sequence with the same tokens, which are the same."""
        child = Checkpoints(self.budget, self.points)
        self.budget.holders.add(child)
        return child

    def take(self, points: Iterable[SequenceCheckpoint]) -> None:
        """Have these checkpoints, one of each length, of other sequences with the same tokens."""
        for point in sorted(points, key=lambda each: each.length):
            if not self.has(point.length):
                self.add(point)
        self.budget.holders.add(self)

    def plan(self, marks: Ids[int], retry: int | None, windows: bool) -> list[int]:
        """See `CheckpointBudget.plan`."""
        return self.budget.plan(self, marks, retry, windows)

    def forget_one(self) -> bool:
        """See `CheckpointBudget.forget_one`."""
        return self.budget.forget_one(self)

    def has(self, length: int) -> bool:
        """Whether there is one at a length."""
        return any(point.length == length for point in self.points)

    def best(self, n: int) -> SequenceCheckpoint | None:
        """The checkpoint that reaches farthest up to `n`; None without any."""
        return max(self.points, key=lambda point: point.reach(n), default=None)

    @property
    def lasting(self) -> list[SequenceCheckpoint]:
        """The checkpoints that are not for a retry alone."""
        return [point for point in self.points if not point.retry]

    def add(self, point: SequenceCheckpoint) -> None:
        """Add a checkpoint. With windows, the least useful one of more than MAX_CHECKPOINTS goes (`by_usefulness`)."""
        self.points = sorted([*self.points, point], key=lambda each: each.length)
        lengths = [each.length for each in self.lasting]
        if point.tables and len(lengths) > MAX_CHECKPOINTS:
            gone = by_usefulness(lengths)[0]
            self.points = [each for each in self.points if each.length != gone]

    def make_room_to_hold(self) -> None:
        """Forget the checkpoint that is held, and others for which there is no room beside the next one to be held."""
        self.points = [point for point in self.points if not point.held]
        self.budget.make_room(self)

    def trim(self, length: int) -> None:
        """Forget the checkpoints behind a length."""
        self.points = [point for point in self.points if point.length <= length]


class CheckpointBudget:
    """The limit of state pages for the checkpoints of all sequences; `states` is None without recurrent layers.

    When pages are short, sequences that wait lose their checkpoints for a retry first. Then the sequence with the most
    checkpoints loses its least useful one; each sequence keeps its last.
    """

    def __init__(self, states: StatePool | None) -> None:
        self.states, self._clock = states, count(1)
        self.holders = WeakSet[Checkpoints]()

    def plan(self, own: Checkpoints, marks: Ids[int], retry: int | None, windows: bool) -> list[int]:
        """Choose which of the lengths in `marks` a sequence gets as checkpoints, and forget others to make room.

        Sets `own.planned`, and returns the lengths whose states must be kept, the most important first.
        """
        own.planned = {}
        if self.states is None and not marks and retry is None:
            return []
        own.used = next(self._clock)
        self.holders.add(own)
        lengths = [n for n in dict.fromkeys(marks) if not own.has(n)]
        retries = [] if retry is None or retry in lengths or own.has(retry) else [retry]
        if self.states is not None:
            if retries:
                own.points = [point for point in own.points if not point.retry]
            while self.states.excess(1 + len(lengths) + len(retries)) > 0:
                if not self._forget_retry(own) and not self._forget_lasting(own, lengths):
                    break
        while windows and len(lengths) > MAX_CHECKPOINTS:
            lengths.remove(by_usefulness(lengths)[0])
        own.planned = dict.fromkeys(lengths, False) | dict.fromkeys(retries, self.states is not None and not windows)
        return [*retries, *reversed(lengths)]

    def make_room(self, own: Checkpoints) -> None:
        """Forget checkpoints until the present state may stay beside the two that later batches have pages for."""
        self.holders.add(own)
        while self.states and self.states.excess(NEEDED_STATE_PAGES) > 0:
            if not self._forget_retry(own) and not self._forget_lasting(own, []):
                break

    def forget_one(self, own: Checkpoints) -> bool:
        """Forget the least useful checkpoint; False if there is none. Other sequences keep their last one."""
        if self._forget_retry(own) or self._forget_lasting(own, []):
            return True
        if not own.points:
            return False
        self._forget_everywhere(max(own.points, key=lambda point: point.retry))
        return True

    def _forget_retry(self, own: Checkpoints) -> bool:
        """Forget a checkpoint for a retry, of the sequence that waits longest; False if there is none."""
        waiting = sorted(self.holders, key=lambda each: each.used)
        retries = [point for each in waiting for point in each.points if point.retry and point not in own.points]
        if retries:
            self._forget_everywhere(retries[0])
        return bool(retries)

    def _forget_lasting(self, own: Checkpoints, planned: list[int]) -> bool:
        """Forget one of the sequence with the most, `planned` of `own` included; False if each has only its last."""
        last = {each.lasting[-1] for each in self.holders if each.lasting and not (planned and each is own)}
        counts = {each: len(each.lasting) + (len(planned) if each is own else 0) for each in self.holders}
        for each in sorted(counts, key=lambda each: (-counts[each], each.used)):
            points = {point.length: point for point in each.lasting}
            lengths = sorted([*points, *(planned if each is own else ())])
            for length in by_usefulness(lengths):
                if length not in points:
                    planned.remove(length)
                    return True
                if points[length] not in last:
                    self._forget_everywhere(points[length])
                    return True
        return False

    def _forget_everywhere(self, point: SequenceCheckpoint) -> None:
        for each in self.holders:
            if point in each.points:
                each.points = [other for other in each.points if other is not point]


def by_usefulness(lengths: Ids[int]) -> list[int]:
    """All lengths but the last, the least useful first: that with the narrowest gap around it.

    The gap around a length is compared to the distance from the last one, so that the lengths that stay are close
    together near the end and far apart before it.
    """
    before = (0, *lengths)
    gaps = {n: (lengths[i + 1] - before[i]) / (lengths[-1] - before[i]) for i, n in enumerate(lengths[:-1])}
    return sorted(gaps, key=lambda n: gaps[n])
