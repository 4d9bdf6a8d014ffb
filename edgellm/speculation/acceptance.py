"""How often drafts are right, learned by their source and by what tells it of each: its signal."""

import math
from bisect import bisect
from copy import copy

from edgellm.sampling.gumbel import Drawn
from edgellm.sampling.top_k import Scores
from edgellm.speculation.prompt_lookup import NGRAM_SIZES
from edgellm.speculation.sources import Source

LOOKUP_RATES = {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.4, 4: 0.6, 8: 0.75, 16: 0.85}
"""Expected probability that a token of prompt lookup is right, by the length of the matched n-gram: its signal."""

assert set(LOOKUP_RATES) == {0, *NGRAM_SIZES}

_MARGINS = 0.1, 0.25, 0.5, 1.0, 2.0, 4.0
"""Bounds of the signals of drawn drafts, nats: how far a token's perturbed score is above the next one's. The target
draws with the same random numbers, so a wide margin tells that its scores will have the same order."""

CERTAIN = len(_MARGINS) + 1
"""The signal of a token that a guide forces behind drafts, or alone allows."""

_FIRST_RATE = 0.5
"""Expected probability that a computed draft is right. (Simulated: with 0.6 a source that is never right costs a reply
of 64 tokens 3.2 % of its speed, with 0.5 2.7 %.)"""

_STEP, _SLOW_STEP = 0.1, 0.03
"""Weights of an outcome in moving averages: that of what came last, and that of a rate once it is settled."""

_CHANGE = 0.25
"""A settled rate from which the last outcomes differ by this much is given up for theirs: the text has changed."""

_SHARED_OUTCOMES, _MOST_OUTCOMES = 4, 20
"""The mean of a source counts as much as this many outcomes of a signal, of which the last ones count."""


def signal_of(drawn: Drawn, scores: Scores) -> int:
    """The signal of a draft: by its margin; where it was the only candidate, by that of its score.

    `scores` are those of the sampler's first stages (`Sampler.scores`), so that a token that may not come has no part.
    """
    if drawn.margin < math.inf:
        return bisect(_MARGINS, drawn.margin)
    top = scores[drawn.token]
    scores[drawn.token] = -math.inf
    margin = float(top) - float(scores.max())
    scores[drawn.token] = top
    return bisect(_MARGINS, margin)


class _Rate:
    """A moving average. One that `settles` is steady where outcomes stay alike, and quick where they change."""

    def __init__(self, rate: float, settles: bool) -> None:
        self.rate = self._recent = rate
        self.outcomes, self._settles = 0, settles

    def add(self, accepted: bool) -> None:
        self._recent += _STEP * (accepted - self._recent)
        step = max(_SLOW_STEP, min(_STEP, 1 / (1 + self.outcomes)))
        self.rate += step * (accepted - self.rate)
        self.outcomes += 1
        if not self._settles or abs(self._recent - self.rate) > _CHANGE:
            self.rate = self._recent


class Acceptance:
    """Rates of acceptance, by source and signal: those of a session, or of one of its replies.

    A reply begins with the rates of its `session`, which learns from all replies at once. Rates of prompt lookup begin
    anew with each reply, as texts differ in how they repeat themselves.
    """

    def __init__(self, session: "Acceptance | None" = None) -> None:
        self._session = session
        self._means: dict[Source, _Rate] = {}
        self._rates: dict[tuple[Source, int], _Rate] = {}
        self._proved: set[Source] = set()

    def mean(self, source: Source) -> float:
        """The rate of a source, for drafts whose signal is not known yet."""
        found = self._mean_of(source)
        return found.rate if found else _FIRST_RATE

    def rate(self, source: Source, signal: int) -> float:
        """The probability that a draft with that signal is right, if all before it are."""
        if source == "guide" or (source != "lookup" and signal == CERTAIN):
            return 1.0
        found = self._rate_of(source, signal)
        if source == "lookup":
            return found.rate if found else LOOKUP_RATES[signal]
        shared = self.mean(source)
        if found is None:
            return shared
        outcomes = min(found.outcomes, _MOST_OUTCOMES)
        return (outcomes * found.rate + _SHARED_OUTCOMES * shared) / (outcomes + _SHARED_OUTCOMES)

    def _mean_of(self, source: Source) -> _Rate | None:
        found = self._means.get(source)
        return self._session._mean_of(source) if found is None and self._session else found

    def _rate_of(self, source: Source, signal: int) -> _Rate | None:
        found = self._rates.get((source, signal))
        return self._session._rate_of(source, signal) if found is None and self._session else found

    def has_proved(self, source: Source) -> bool:
        """Whether any draft of a source was right, in any reply."""
        return source in (self._session or self)._proved

    def record(self, source: Source, signal: int, accepted: bool) -> None:
        """A draft was accepted or rejected; all before it were accepted."""
        if source == "guide" or (source != "lookup" and signal == CERTAIN):
            return
        cell = source, signal
        if cell not in self._rates:
            first = LOOKUP_RATES[signal] if source == "lookup" else self.mean(source)
            self._rates[cell] = copy(self._rate_of(source, signal)) or _Rate(first, source != "lookup")
        self._rates[cell].add(accepted)
        if source == "lookup":
            return
        if source not in self._means:
            self._means[source] = copy(self._mean_of(source)) or _Rate(_FIRST_RATE, settles=True)
        self._means[source].add(accepted)
        if accepted:
            self._proved.add(source)
        if self._session:
            self._session.record(source, signal, accepted)
