"""From logits to a token, in two steps: the stages make a distribution, and drawing picks from it.

The order of the stages is that of llama.cpp's default chain:

    logits ─▶ bias ─▶ penalties ─▶ mask ─▶ top-k ─▶ top-p ─▶ min-p ─▶ temperature ─▶ Distribution ─▶ draw

A temperature of 0 takes the most likely token instead of the last four. Equal logits rank by id, the lowest
first.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.options import GenerationOptions
from edgellm.sampling.philox import uniform
from edgellm.sampling.recent import Recent
from edgellm.sampling.top_k import LARGEST, Ids, Scores, above, top

_GATE = np.array([-np.inf, np.inf], np.float32)


class Distribution(NamedTuple):
    """The tokens that may come next, most likely first, and their probabilities, each above 0, of sum 1."""

    ids: Ids
    probabilities: NDArray[np.float64]


class Sampler:
    """The stages for one sequence; it remembers the sequence's tokens for the penalties."""

    def __init__(self, options: GenerationOptions, n_vocab: int) -> None:
        """Raises OptionError if the logit bias names a token that the vocabulary does not have."""
        self._options = options
        penalties = (options.repeat_penalty, options.presence_penalty, options.frequency_penalty)
        self._recent = None if penalties == (1, 0, 0) else Recent(options.penalty_last_n)
        self._biased = np.array(list(options.logit_bias), np.intp)
        self._bias = np.array(list(options.logit_bias.values()), np.float64)
        if max(options.logit_bias, default=0) >= n_vocab:
            raise OptionError(f"option logit_bias has token {self._biased.max()}: give ids below {n_vocab}")

    def accept(self, token: int) -> None:
        """Remember a token that is now part of the sequence, be it of the prompt or of the reply."""
        if self._recent:
            self._recent.accept(token)

    def rollback(self, n: int) -> None:
        """Forget the last `n` tokens."""
        if self._recent:
            self._recent.rollback(n)

    @np.errstate(over="ignore")  # what is too large becomes infinite, which here means certain or forbidden
    def apply(self, logits: Scores, allowed: NDArray[np.bool_] | None = None) -> Distribution:
        """The final distribution of the next token.

        Args:
            logits: (n_vocab,) as the model gives them; not changed. +Inf ones share all the probability.
            allowed: (n_vocab,) which tokens may come at all; None for any.

        Raises:
            EdgeLLMError: a logit is NaN, or no token may come.
        """
        scores = self._adjusted(logits)
        if allowed is not None:
            scores = np.minimum(scores, _GATE.take(allowed))  # twice as fast as `where`
        if self._options.temp == 0:
            best = scores.argmax()  # of a NaN, if there is one
            _check(scores[best])
            return Distribution(np.array([best]), np.ones(1))
        ids, below = self._candidates(*_finite(scores))
        weights = np.exp(below / self._options.temp)
        probabilities = weights / weights.sum()
        possible = np.count_nonzero(probabilities)
        return Distribution(ids[:possible], probabilities[:possible])

    def _adjusted(self, logits: Scores) -> Scores:
        """The logits with bias and penalties (arXiv:1909.05858, part 4.1; OpenAI's API), in a copy if there are any."""
        if not self._biased.size and not self._recent:
            return logits
        scores, options = logits.copy(), self._options
        scores[self._biased] = np.minimum(np.minimum(scores[self._biased], LARGEST) + self._bias, LARGEST)
        if self._recent:
            ids, counts = self._recent.counts()
            seen, repeat = np.minimum(scores[ids], LARGEST).astype(np.float64), options.repeat_penalty
            seen = np.where(seen > 0, seen / repeat, seen * repeat)
            seen -= counts * options.frequency_penalty + options.presence_penalty
            scores[ids] = np.minimum(seen, LARGEST)
        return scores

    def _candidates(self, scores: Scores, peak: np.float32) -> tuple[Ids, NDArray[np.float64]]:
        """The ids that top-k, top-p and min-p leave, most likely first; their scores less that of the first.

        Top-p and min-p each cut the ranked list, so the shorter cut holds; top-p counts in what top-k left.
        """
        options, total = self._options, 0.0
        if options.top_k:
            ids = top(scores, options.top_k)
        else:
            # Ranking all is slow (3 ms for 128k), so leave out first what min-p or top-p is sure to drop:
            # all shares below the second bound sum to less than 1 - top_p. Halved to allow for rounding.
            total = _total(scores, peak) if options.top_p < 1 else 0.0
            sure = max(options.min_p, (1 - options.top_p) * total / len(scores)) / 2
            ids = above(scores, float(peak) + math.log(sure) if sure else -math.inf)
        below = scores[ids].astype(np.float64) - peak
        weights = np.exp(below)
        kept = int(np.count_nonzero(weights >= options.min_p))
        if options.top_p < 1:
            reached = options.top_p * (total or weights.sum())
            kept = min(kept, int(weights.cumsum().searchsorted(reached)) + 1)
        return ids[:kept], below[:kept]


def _finite(scores: Scores) -> tuple[Scores, np.float32]:
    """The scores with +inf as the largest number, and the largest of them.

    Raises EdgeLLMError if a score is no number, or if every token is forbidden.
    """
    peak: np.float32 = scores.max()
    _check(peak)
    return (scores, peak) if peak < np.inf else (np.minimum(scores, LARGEST), LARGEST)


def _check(peak: np.float32) -> None:
    if math.isnan(peak):
        raise EdgeLLMError("the model computed NaN instead of logits: check its file with edgellm verify")
    if peak == -np.inf:
        raise EdgeLLMError("no token may come next, all have a logit of -inf: loosen logit_bias")


def _total(scores: Scores, peak: np.float32) -> float:
    """The sum of e to the power of each score less the largest: at least 1."""
    shares = scores - peak
    return float(np.exp(shares, out=shares).sum(dtype=np.float64))


def draw(distribution: Distribution, seed: int, sequence: int, position: int) -> int:
    """The token that a seed picks at a position of a sequence, by inverting the cumulative distribution.

    The same arguments give the same token, whatever was drawn before; all three are in 0..2**64-1.
    """
    cumulative = distribution.probabilities.cumsum()
    point = uniform(seed, sequence, position) * cumulative[-1]
    return int(distribution.ids[cumulative.searchsorted(point, side="right")])


@np.errstate(over="ignore")
def logprob(logits: Scores, token: int) -> float:
    """The natural logarithm of a token's probability in the model's own distribution, before all stages.

    `logits` is (n_vocab,); raises EdgeLLMError if one is NaN.
    """
    scores, peak = _finite(logits)
    return float(scores[token]) - float(peak) - math.log(_total(scores, peak))


@np.errstate(over="ignore")
def likeliest(logits: Scores, most: int) -> list[tuple[int, float]]:
    """The ids of the `most` likeliest tokens and the `logprob` of each, the likeliest first, equals by id.

    Tokens that cannot come are left out.
    """
    scores, peak = _finite(logits)
    total = math.log(_total(scores, peak))
    return [(int(i), float(scores[i]) - float(peak) - total) for i in top(scores, most)]
