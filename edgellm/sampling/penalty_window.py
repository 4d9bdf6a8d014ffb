"""The window of last tokens that the repetition, presence and frequency penalties look at."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.intp]


class PenaltyWindow:
    """Counts the tokens among the last `n` of a sequence, or among all if `n` is -1.

    The cost of a token does not grow with the sequence: one count rises and another one falls.
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._tokens: list[int] = []
        self._counts: dict[int, int] = {}

    def fork(self) -> "PenaltyWindow":
        """Another window over the same tokens."""
        child = PenaltyWindow(self._n)
        child._tokens, child._counts = list(self._tokens), dict(self._counts)
        return child

    def accept(self, token: int) -> None:
        """Append a token to the sequence."""
        self._tokens.append(token)
        self._add(token, 1)
        if 0 <= self._n < len(self._tokens):
            self._add(self._tokens[-1 - self._n], -1)

    def rollback(self, n: int) -> None:
        """Remove the last `n` tokens from the sequence."""
        for _ in range(min(n, len(self._tokens))):
            if 0 <= self._n < len(self._tokens):
                self._add(self._tokens[-1 - self._n], 1)
            self._add(self._tokens.pop(), -1)

    def counts(self) -> tuple[Ints, Ints]:
        """The distinct token ids in the window, and how often each occurs."""
        size = len(self._counts)
        return np.fromiter(self._counts, np.intp, size), np.fromiter(self._counts.values(), np.intp, size)

    def _add(self, token: int, times: int) -> None:
        count = self._counts.get(token, 0) + times
        if count:
            self._counts[token] = count
        else:
            del self._counts[token]
