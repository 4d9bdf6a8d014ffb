"""The draft policy of speculative decoding: how many draft tokens a step computes."""

from dataclasses import dataclass

from edgellm.engine.limits import MAX_DRAFT
from edgellm.generate.prompt_lookup import NGRAM_SIZES

_STEP_COST = 1.0, 1.05, 1.3, 2.0
"""Expected time of a step with 0, 1, 2 to 3 and 4 to 7 draft tokens, relative to the first, until it is measured. These
are separate classes: `kquants.matmul` multiplies two, four and eight rows at once; eight rows use unpacked weights in
most formats."""

_ACCEPTANCE_RATE = {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.4, 4: 0.6, 8: 0.75, 16: 0.85}
"""Expected probability that a draft token is right, by the length of the matched n-gram, until it is observed."""

_COST_DECAY = 0.998
"""Factor on the cost of a step class for each step of another class: in the end the class is tried again, as the
machine may have changed."""

assert set(_ACCEPTANCE_RATE) == {0, *NGRAM_SIZES} and MAX_DRAFT.bit_length() == len(_STEP_COST) - 1


@dataclass
class _StepTime:
    """Seconds of a step of one class, 0 before the first; and the number of steps of other classes since the last."""

    seconds: float = 0.0
    unused: int = 0

    def record(self, seconds: float) -> None:
        if self.seconds:  # a step that takes much longer than usual was disturbed
            seconds = 0.7 * self.seconds + 0.3 * min(seconds, 2 * self.seconds)
        self.seconds, self.unused = seconds, 0

    def expected(self, default: float) -> float:
        """Seconds to expect of the next step; `default` if none was recorded."""
        return (self.seconds or default) * _COST_DECAY**self.unused


class DraftPolicy:
    """Chooses how many draft tokens a step computes, from the acceptance rate of drafts and the time of steps."""

    def __init__(self) -> None:
        self._acceptance_rate, self._times = dict(_ACCEPTANCE_RATE), [_StepTime() for _ in _STEP_COST]

    def draft_length(self, available: int, matched: int) -> int:
        """The number of draft tokens, of `available` ones after `matched` n-gram tokens, with most tokens per second.

        0 until the time of a step without drafts is known.
        """
        plain, rate = self._times[0].seconds, self._acceptance_rate[matched]
        if not plain:
            return 0

        def tokens_per_second(drafts: int) -> float:
            step_class = _step_class(drafts)
            seconds = self._times[step_class].expected(plain * _STEP_COST[step_class])
            return sum(rate**i for i in range(drafts + 1)) / seconds

        # Of equally fast lengths the shortest.
        return max((min(drafts, available) for drafts in (0, 1, 3, MAX_DRAFT)), key=tokens_per_second)

    def record_outcome(self, matched: int, accepted: bool) -> None:
        """A token drafted after `matched` n-gram tokens was accepted or rejected."""
        self._acceptance_rate[matched] += 0.1 * (accepted - self._acceptance_rate[matched])

    def record_step(self, drafts: int, seconds: float) -> None:
        """A step with `drafts` draft tokens took `seconds`."""
        for times in self._times:
            times.unused += 1
        self._times[_step_class(drafts)].record(seconds)


def _step_class(drafts: int) -> int:
    return drafts.bit_length()
