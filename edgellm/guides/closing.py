"""The end of what a model thinks: a token, or a text that several tokens spell."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from edgellm.guides.guide import Mask


class Closing(Protocol):
    """Finds the end of thinking in the tokens of a reply."""

    def push(self, token: int) -> bool:
        """Read a token; returns whether thinking ends with it."""

    def forbid(self, mask: Mask) -> Mask:
        """The mask [vocab] without the tokens that would end thinking and begin to answer."""


class ClosingToken:
    """Thinking ends with one token."""

    def __init__(self, token: int) -> None:
        self._token = token

    def push(self, token: int) -> bool:
        """Whether this is the token."""
        return token == self._token

    def forbid(self, mask: Mask) -> Mask:
        """The same mask."""
        return mask


class ClosingText:
    """Thinking ends with a text. `pieces` are the bytes of all tokens.

    A token that has more behind the text would hold the beginning of the answer: it is forbidden where it would end
    thinking.
    """

    def __init__(self, closing: bytes, pieces: Sequence[bytes]) -> None:
        self._closing, self._pieces = closing, pieces
        self._tail = b""
        candidates = [i for i, piece in enumerate(pieces) if closing[-1:] in piece[:-1]]
        # Of each number of bytes that may stand before a token: the tokens that have the rest, and more.
        self._longer = [
            np.array([i for i in candidates if _goes_beyond(pieces[i], closing, n)], np.intp)
            for n in range(len(closing))
        ]

    def push(self, token: int) -> bool:
        """Read a token; returns whether it ends the text."""
        self._tail += self._pieces[token]
        ended = self._tail.endswith(self._closing)
        self._tail = self._tail[-len(self._closing) :]
        return ended

    def forbid(self, mask: Mask) -> Mask:
        """The mask without tokens that go on behind the text."""
        lengths = [n for n in range(len(self._closing)) if self._tail.endswith(self._closing[:n])]
        forbidden = np.concatenate([self._longer[n] for n in lengths])
        if not len(forbidden):
            return mask
        left = mask.copy()
        left[forbidden[forbidden < len(mask)]] = False
        return left


def _goes_beyond(piece: bytes, closing: bytes, n: int) -> bool:
    """Whether a token behind the first `n` bytes of `closing` completes it and has more bytes."""
    at = (closing[:n] + piece).find(closing)
    return (at == 0 if n else at >= 0) and at + len(closing) < n + len(piece)
