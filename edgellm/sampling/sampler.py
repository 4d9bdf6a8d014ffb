"""From logits to a token in two steps: stages give a distribution, and `gumbel_draw` picks a token from it.

The order of the stages is that of llama.cpp's default chain:

    logits ─▶ bias ─▶ penalties ─▶ mask ─▶ top-k ─▶ top-p ─▶ min-p ─▶ temperature ─▶ Distribution

A temperature of 0 takes the most likely token in place of the last four stages. Ties rank by id, the lowest first.
"""

import math
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.options import GenerationOptions
from edgellm.sampling.penalty_window import PenaltyWindow
from edgellm.sampling.top_k import LARGEST, Ids, Scores, at_least, top_k


class Distribution(NamedTuple):
    """The possible next tokens, most likely first, and their probabilities, each above 0; their sum is 1."""

    ids: Ids
    probabilities: NDArray[np.float64]


class Sampler:
    """The sampler stages of one sequence. It counts the tokens of the sequence for the penalties."""

    def __init__(self, options: GenerationOptions, n_vocab: int) -> None:
        """Raises OptionError if the logit bias has a token id that is not in the vocabulary."""
        self._options = options
        penalties = (options.repeat_penalty, options.presence_penalty, options.frequency_penalty)
        self._penalty_window = None if penalties == (1, 0, 0) else PenaltyWindow(options.penalty_last_n)
        self._biased = np.array(list(options.logit_bias), np.intp)
        self._bias = np.array(list(options.logit_bias.values()), np.float64)
        if max(options.logit_bias, default=0) >= n_vocab:
            raise OptionError(f"option logit_bias has token {self._biased.max()}: give ids below {n_vocab}")

    def fork(self) -> "Sampler":
        """Another sampler, of a sequence with the same tokens."""
        child = copy(self)
        child._penalty_window = self._penalty_window and self._penalty_window.fork()
        return child

    def accept(self, token: int) -> None:
        """Append a token of the prompt or of the reply to the sequence."""
        if self._penalty_window:
            self._penalty_window.accept(token)

    def rollback(self, n: int) -> None:
        """Remove the last `n` tokens from the sequence."""
        if self._penalty_window:
            self._penalty_window.rollback(n)

    def apply(self, logits: Scores, allowed: NDArray[np.bool_] | None = None) -> Distribution:
        """The distribution of the next token.

        Args:
            logits: (n_vocab,) of the model; not changed. Tokens with +inf share all the probability.
            allowed: (n_vocab,) the tokens that are allowed; None for all.

        Raises:
            EdgeLLMError: a logit is NaN, or no token is possible.
        """
        return self.distribution(self.scores(logits, allowed))

    @np.errstate(over="ignore")  # an overflow gives an infinite score: certain, or impossible
    def scores(self, logits: Scores, allowed: NDArray[np.bool_] | None = None) -> Scores:
        """The logits with bias, penalties and mask: the first stages of `apply`; a copy if they change."""
        scores = self.adjusted(logits)
        return scores if allowed is None else np.minimum(scores, _upper_bounds(allowed))

    @np.errstate(over="ignore")
    def distribution(self, scores: Scores) -> Distribution:
        """The distribution of `scores`: the other stages of `apply`. Raises EdgeLLMError as that does."""
        if self._options.temp == 0:
            best = scores.argmax()  # the index of a NaN, if there is one
            _check(scores[best])
            return Distribution(np.array([best]), np.ones(1))
        ids, below = self._candidates(*_finite(scores))
        weights = np.exp(below / self._options.temp)
        probabilities = weights / weights.sum()
        possible = np.count_nonzero(probabilities)
        return Distribution(ids[:possible], probabilities[:possible])

    def adjusted(self, logits: Scores) -> Scores:
        """The logits with bias and penalties (arXiv:1909.05858, section 4.1; OpenAI's API); a copy if they change."""
        if not self._biased.size and not self._penalty_window:
            return logits
        scores, options = logits.copy(), self._options
        scores[self._biased] = np.minimum(np.minimum(scores[self._biased], LARGEST) + self._bias, LARGEST)
        if self._penalty_window:
            ids, counts = self._penalty_window.counts()
            seen, repeat = np.minimum(scores[ids], LARGEST).astype(np.float64), options.repeat_penalty
            seen = np.where(seen > 0, seen / repeat, seen * repeat)
            seen -= counts * options.frequency_penalty + options.presence_penalty
            scores[ids] = np.minimum(seen, LARGEST)
        return scores

    def _candidates(self, scores: Scores, peak: np.float32) -> tuple[Ids, NDArray[np.float64]]:
        """The ids that pass top-k, top-p and min-p, most likely first; and their scores less the largest.

        Top-p and min-p each cut the ranked list, so the shorter cut applies; top-p sums over the result of top-k.
        """
        options, total = self._options, 0.0
        if options.top_k:
            ids = top_k(scores, options.top_k)
        else:
            # Ranking all tokens is slow (3 ms for 128k), so tokens that min-p or top-p is sure to drop are left out
            # first: all probabilities below the second bound sum to less than 1 - top_p. Halved for rounding errors.
            total = _total(scores, peak) if options.top_p < 1 else 0.0
            sure = max(options.min_p, (1 - options.top_p) * total / len(scores)) / 2
            ids = at_least(scores, float(peak) + math.log(sure) if sure else -math.inf)
        below = scores[ids].astype(np.float64) - peak
        weights = np.exp(below)
        kept = int(np.count_nonzero(weights >= options.min_p))
        if options.top_p < 1:
            reached = options.top_p * (total or weights.sum())
            kept = min(kept, int(weights.cumsum().searchsorted(reached)) + 1)
        return ids[:kept], below[:kept]


def _upper_bounds(allowed: NDArray[np.bool_]) -> Scores:
    """Upper bounds of scores: -inf of tokens that are not allowed, inf of others.

    By arithmetic: with 128k tokens that takes a quarter of the time of `where` and of a table.
    """
    bounds = allowed.astype(np.float32)
    bounds -= np.float32(0.5)
    bounds *= np.float32(np.inf)
    return bounds


def _finite(scores: Scores) -> tuple[Scores, np.float32]:
    """The scores with +inf replaced by the largest float32, and the largest score.

    Raises EdgeLLMError if a score is NaN, or if all are -inf.
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
    """The sum of exp(score - peak) over all scores; at least 1."""
    shares = scores - peak
    return float(np.exp(shares, out=shares).sum(dtype=np.float64))


@np.errstate(over="ignore")
def logprob(logits: Scores, token: int) -> float:
    """The natural logarithm of a token's probability in the model's own distribution, before any stage.

    `logits` is (n_vocab,); raises EdgeLLMError if one is NaN.
    """
    scores, peak = _finite(logits)
    return float(scores[token]) - float(peak) - math.log(_total(scores, peak))


@np.errstate(over="ignore")
def probability(logits: Scores, tokens: NDArray[np.bool_] | int) -> float:
    """The probability of a token, or of all tokens in a mask (n_vocab,), in the model's own distribution.

    `logits` is (n_vocab,); raises EdgeLLMError if one is NaN.
    """
    scores, peak = _finite(logits)
    shares = scores - peak
    np.exp(shares, out=shares)
    total = float(shares.sum())
    if isinstance(tokens, int):
        return float(shares[tokens]) / total
    shares *= tokens.astype(np.float32)  # by arithmetic: picking them out takes up to ten times as long
    return float(shares.sum()) / total


@np.errstate(over="ignore")
def top_logprobs(logits: Scores, n: int) -> list[tuple[int, float]]:
    """The ids of the `n` most likely tokens and the `logprob` of each, most likely first, ties by id.

    Tokens with a logit of -inf are left out.
    """
    scores, peak = _finite(logits)
    total = math.log(_total(scores, peak))
    return [(int(i), float(scores[i]) - float(peak) - total) for i in top_k(scores, n)]
