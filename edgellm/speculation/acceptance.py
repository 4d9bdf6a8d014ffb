"""How often drafts are right, learned by their source and by what tells it of each: its signal."""

import math
from bisect import bisect

from edgellm.sampling.gumbel import Drawn
from edgellm.sampling.top_k import Scores
from edgellm.speculation.drafter import Source
from edgellm.speculation.prompt_lookup import NGRAM_SIZES

LOOKUP_RATES = {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.4, 4: 0.6, 8: 0.75, 16: 0.85}
"""Expected probability that a token of prompt lookup is right, by the length of the matched n-gram: its signal."""

assert set(LOOKUP_RATES) == {0, *NGRAM_SIZES}

_MARGINS = 0.1, 0.25, 0.5, 1.0, 2.0, 4.0
"""Bounds of the signals of drawn drafts, nats: how far a token's perturbed score is above the next one's. The target
draws with the same random numbers, so a wide margin tells that its scores will have the same order."""

CERTAIN = len(_MARGINS) + 1
"""The signal of a token that a guide forces behind drafts."""

_FIRST_RATE = 0.5
"""Expected probability that a computed draft is right. (Simulated: with 0.6 a source that is never right costs a reply
of 64 tokens 3.2 % of its speed, with 0.5 2.7 %.)"""

_STEP = 0.1
"""Weight of an outcome in the moving average of a rate."""

_SHARED_OUTCOMES = 4
"""The mean of a source counts as much as this many outcomes of a signal."""


def signal_of(drawn: Drawn, logits: Scores) -> int:
    """The signal of a draft: by its margin; where it was the only candidate, by that of its logit."""
    if drawn.margin < math.inf:
        return bisect(_MARGINS, drawn.margin)
    top = logits[drawn.token]
    logits[drawn.token] = -math.inf
    margin = float(top - logits.max())
    logits[drawn.token] = top
    return bisect(_MARGINS, margin)


class Acceptance:
    """Rates of acceptance: moving averages over outcomes.

    Those of a reply are a `fork` of its session's, and `merge` into them at its end: they begin with what the replies
    before have shown. Rates of prompt lookup begin anew with each reply, as texts differ in how they repeat themselves.
    """

    def __init__(self) -> None:
        self._means: dict[Source, float] = {}
        self._rates: dict[tuple[Source, int], float] = {}
        self._counts: dict[tuple[Source, int], int] = {}
        self._judged: dict[Source, int] = {}
        self._accepted: dict[Source, int] = {}

    def mean(self, source: Source) -> float:
        """The rate of a source, for drafts whose signal is not known yet."""
        return self._means.get(source, _FIRST_RATE)

    def rate(self, source: Source, signal: int) -> float:
        """The probability that a draft with that signal is right, if all before it are."""
        cell = source, signal
        if source == "lookup":
            return self._rates.get(cell, LOOKUP_RATES[signal])
        if signal == CERTAIN or source == "guide":
            return 1.0
        count = min(self._counts.get(cell, 0), round(1 / _STEP))
        shared = _SHARED_OUTCOMES * self.mean(source)
        return (count * self._rates.get(cell, 0.0) + shared) / (count + _SHARED_OUTCOMES)

    def has_proved(self, source: Source) -> bool:
        """Whether any draft of a source was right."""
        return self._accepted.get(source, 0) > 0

    def record(self, source: Source, signal: int, accepted: bool) -> None:
        """A draft was accepted or rejected; all before it were accepted."""
        if source == "guide" or (source != "lookup" and signal == CERTAIN):
            return
        cell, first = (source, signal), LOOKUP_RATES[signal] if source == "lookup" else self.mean(source)
        before = self._rates.get(cell, first)
        self._rates[cell] = before + _STEP * (accepted - before)
        self._counts[cell] = self._counts.get(cell, 0) + 1
        mean = self.mean(source)
        self._means[source] = mean + _STEP * (accepted - mean)
        self._judged[source] = self._judged.get(source, 0) + 1
        self._accepted[source] = self._accepted.get(source, 0) + accepted

    def fork(self) -> "Acceptance":
        """The rates that a new reply begins with."""
        child = Acceptance()
        child._means = {source: each for source, each in self._means.items() if source != "lookup"}
        child._rates = {cell: each for cell, each in self._rates.items() if cell[0] != "lookup"}
        child._counts, child._accepted = dict(self._counts), dict(self._accepted)
        return child

    def merge(self, reply: "Acceptance") -> None:
        """Learn what a reply has shown: the rates of a source count as much as its outcomes would, one by one."""
        for source, judged in reply._judged.items():
            weight = 1 - (1 - _STEP) ** judged
            self._means[source] = self.mean(source) + weight * (reply.mean(source) - self.mean(source))
            self._accepted[source] = max(self._accepted.get(source, 0), reply._accepted.get(source, 0))
        for cell, rate in reply._rates.items():
            judged = reply._judged.get(cell[0], 0)
            before = self._rates.get(cell, rate)
            self._rates[cell] = before + (1 - (1 - _STEP) ** judged) * (rate - before)
            self._counts[cell] = max(self._counts.get(cell, 0), reply._counts.get(cell, 0))
