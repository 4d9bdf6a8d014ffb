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
from edgellm.text.philox import uniform

Scores = NDArray[np.float32]
_LARGEST = np.finfo(np.float32).max
_GATE = np.array([-np.inf, np.inf], np.float32)


class Distribution(NamedTuple):
    """The tokens that may come next, most likely first, and their probabilities, each above 0, of sum 1."""

    ids: NDArray[np.intp]
    probabilities: NDArray[np.float64]


class Sampler:
    """The stages for one sequence; it remembers the sequence's tokens for the penalties."""

    def __init__(self, options: GenerationOptions, n_vocab: int) -> None:
        """Raises OptionError if the logit bias names a token that the vocabulary does not have."""
        self._options = options
        self._history: list[int] = []
        self._biased = np.array(list(options.logit_bias), np.intp)
        self._bias = np.array(list(options.logit_bias.values()), np.float64)
        if max(options.logit_bias, default=0) >= n_vocab:
            raise OptionError(f"option logit_bias has token {self._biased.max()}: give ids below {n_vocab}")

    def accept(self, token: int) -> None:
        """Remember a token that is now part of the sequence, be it of the prompt or of the reply."""
        self._history.append(token)

    def rollback(self, n: int) -> None:
        """Forget the last `n` tokens."""
        del self._history[max(0, len(self._history) - n) :]

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
            np.minimum(scores, _GATE.take(allowed), out=scores)  # five times as fast as a masked copy
        peak = _peak(scores)
        if self._options.temp == 0:
            return Distribution(np.array([scores.argmax()]), np.ones(1))
        ids = self._candidates(scores, peak)
        weights = np.exp((scores[ids].astype(np.float64) - peak) / self._options.temp)
        probabilities = weights / weights.sum()
        possible = np.count_nonzero(probabilities)
        return Distribution(ids[:possible], probabilities[:possible])

    def _adjusted(self, logits: Scores) -> Scores:
        """A copy of the logits with bias and penalties (arXiv:1909.05858, part 4.1; OpenAI's API)."""
        scores: Scores = np.minimum(logits, _LARGEST)
        scores[self._biased] = np.minimum(scores[self._biased] + self._bias, _LARGEST)
        ids, counts = self._recent()
        if ids.size:
            seen, repeat = scores[ids].astype(np.float64), self._options.repeat_penalty
            seen = np.where(seen > 0, seen / repeat, seen * repeat)
            seen -= counts * self._options.frequency_penalty + self._options.presence_penalty
            scores[ids] = np.minimum(seen, _LARGEST)
        return scores

    def _recent(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The tokens that the penalties bear on, each once, and how often each came."""
        options, n = self._options, self._options.penalty_last_n
        idle = (options.repeat_penalty, options.presence_penalty, options.frequency_penalty) == (1, 0, 0)
        first = 0 if n < 0 else max(0, len(self._history) - n)
        window = [] if idle else self._history[first:]
        return np.unique(np.array(window, np.intp), return_counts=True)

    def _candidates(self, scores: Scores, peak: np.float32) -> NDArray[np.intp]:
        """The ids that top-k, top-p and min-p leave, most likely first.

        Top-p and min-p each cut the ranked list, so the shorter cut holds; top-p counts in what top-k left.
        """
        options = self._options
        if options.top_k:
            ids = _ranked(scores, _near_top(scores, options.top_k))[: options.top_k]
            total = np.exp(scores[ids].astype(np.float64) - peak).sum()
        else:
            shares = np.exp(scores - peak)
            total = shares.sum(dtype=np.float64)
            # Ranking all is slow (11 ms for 128k), so leave out first what min-p or top-p is sure to drop:
            # all shares below the second bound sum to less than 1 - top_p. Halved to allow for rounding.
            sure = max(options.min_p, (1 - options.top_p) * total / len(scores)) / 2
            ids = _ranked(scores, np.flatnonzero(shares >= sure))
        weights = np.exp(scores[ids].astype(np.float64) - peak)
        kept = int(np.count_nonzero(weights >= options.min_p))
        if options.top_p < 1:
            kept = min(kept, int(np.searchsorted(weights.cumsum(), options.top_p * total)) + 1)
        return ids[:kept]


def _peak(scores: Scores) -> np.float32:
    """The largest score; raises EdgeLLMError if it is no number, or if every token is forbidden."""
    peak: np.float32 = scores.max()
    if np.isnan(peak):
        raise EdgeLLMError("the model computed NaN instead of logits: check its file with edgellm verify")
    if peak == -np.inf:
        raise EdgeLLMError("no token may come next, all have a logit of -inf: loosen logit_bias")
    return peak


def _near_top(scores: Scores, k: int) -> NDArray[np.intp]:
    """At least the ids of the `k` largest scores that are not -inf, in rising order of id.

    The k-th largest of the maxima of disjoint groups cannot be above the k-th largest of all, and is close to
    it when the groups are many: 0.1 ms for 128k scores, where a partition of all takes 0.2 to 1.5 ms.
    """
    groups = max(1024, 4 * k)
    rows = len(scores) // groups
    heads = scores[: rows * groups].reshape(rows, groups).max(axis=0) if rows else scores
    floor = np.partition(heads, -k)[-k] if k < len(heads) else -_LARGEST
    return np.flatnonzero(scores >= max(floor, -_LARGEST))


def _ranked(scores: Scores, ids: NDArray[np.intp]) -> NDArray[np.intp]:
    """`ids`, given in rising order, by falling score; equal scores stay in order of id."""
    return ids[np.argsort(-scores[ids], kind="stable")]


def draw(distribution: Distribution, seed: int, sequence: int, position: int) -> int:
    """The token that a seed picks at a position of a sequence, by inverting the cumulative distribution.

    The same arguments give the same token, whatever was drawn before; all three are in 0..2**64-1.
    """
    cumulative = distribution.probabilities.cumsum()
    point = uniform(seed, sequence, position) * cumulative[-1]
    return int(distribution.ids[np.searchsorted(cumulative, point, side="right")])


@np.errstate(over="ignore")
def logprob(logits: Scores, token: int) -> float:
    """The natural logarithm of a token's probability in the model's own distribution, before all stages.

    `logits` is (n_vocab,); raises EdgeLLMError if one is NaN.
    """
    scores: Scores = np.minimum(logits, _LARGEST)
    peak = _peak(scores)
    total = np.exp(scores - peak).sum(dtype=np.float64)
    return float(scores[token]) - float(peak) - math.log(total)
