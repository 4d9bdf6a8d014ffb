"""The draft policy of speculative decoding: how many draft tokens a step computes."""

from edgellm.engine.limits import MAX_DRAFT
from edgellm.engine.step_times import StepTimes
from edgellm.speculation.prompt_lookup import NGRAM_SIZES

_ACCEPTANCE_RATE = {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.4, 4: 0.6, 8: 0.75, 16: 0.85}
"""Expected probability that a draft token is right, by the length of the matched n-gram, until it is observed."""

assert set(_ACCEPTANCE_RATE) == {0, *NGRAM_SIZES}


class DraftPolicy:
    """Chooses how many draft tokens of one reply a step computes, from their acceptance rate and the time of steps."""

    def __init__(self, times: StepTimes) -> None:
        self._acceptance_rate, self._times = dict(_ACCEPTANCE_RATE), times

    def draft_length(self, available: int, matched: int, beside: int = 0) -> int:
        """The number of draft tokens, of `available` ones after `matched` n-gram tokens, with most tokens per second.

        `beside` rows of other replies are computed in the same batch, and give a token each. Returns 0 until the time
        of any step is known.
        """
        rate, rows = self._acceptance_rate[matched], beside + 1

        def tokens_per_second(drafts: int) -> float:
            seconds = self._times.wagered_seconds(rows + drafts)
            return (beside + sum(rate**i for i in range(drafts + 1))) / seconds if seconds else 0.0

        # Of equally fast lengths the shortest.
        return max(sorted(min(drafts, available) for drafts in _lengths(rows)), key=tokens_per_second)

    def record_outcome(self, matched: int, accepted: bool) -> None:
        """A token drafted after `matched` n-gram tokens was accepted or rejected."""
        self._acceptance_rate[matched] += 0.1 * (accepted - self._acceptance_rate[matched])


def _lengths(rows: int) -> set[int]:
    """The numbers of drafts to compare: with `rows` other rows they fill a batch of a class of `StepTimes`."""
    classes = (2**i - rows for i in range((rows + MAX_DRAFT).bit_length()))
    return {0, MAX_DRAFT, *(drafts for drafts in classes if 0 < drafts < MAX_DRAFT)}
