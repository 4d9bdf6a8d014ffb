"""How far a guide pushes a model from what it would write."""

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True)
class GuidedStats:
    """The probability that a guide took away, by the model's own distribution.

    Of each of the `tokens` of the answer it is the probability of all tokens that the guide excluded there: `mean` is
    their mean, `worst` the largest, and `worst_at` the index of its token in the reply.
    """

    tokens: int
    mean: float
    worst: float
    worst_at: int


class GuidedTally:
    """Counts the excluded probability token by token."""

    def __init__(self) -> None:
        self._indices: list[int] = []
        self._sums: list[float] = []
        self._worst: list[tuple[float, int]] = []

    def add(self, index: int, excluded: float) -> None:
        """Count the token of the reply at an index, where tokens with the probability `excluded` were excluded."""
        # Stored for every token, so that reading the figures of a token costs the same at any time.
        self._worst.append(max((excluded, -index), self._worst[-1] if self._worst else (-1.0, 0)))
        self._sums.append(excluded + (self._sums[-1] if self._sums else 0.0))
        self._indices.append(index)

    def stats(self, count: int) -> GuidedStats | None:
        """The figures of the first `count` tokens of the reply; None if the guide excluded none from any of them."""
        n = bisect_left(self._indices, count)
        if not n:
            return None
        worst, at = self._worst[n - 1]
        return GuidedStats(n, self._sums[n - 1] / n, worst, -at)
