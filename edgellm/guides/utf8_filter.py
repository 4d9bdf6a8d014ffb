"""Tokens that leave a text valid UTF-8, for grammars whose negations allow other bytes."""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from edgellm.guides.guide import Mask

_Decoder = getincrementaldecoder("utf-8")


class Utf8Tokens:
    """Which tokens may follow the bytes of an incomplete character. `pieces` are the bytes of all tokens."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        self.allowed = lru_cache(64)(self._allowed)

    def _allowed(self, pending: bytes) -> Mask:
        """The tokens [number of pieces] behind the bytes `pending`; a token without bytes only if there are none."""
        return np.array([_is_valid(pending, piece) for piece in self.pieces], np.bool_)


class Utf8State:
    """The incomplete character at the end of one reply."""

    def __init__(self, tokens: Utf8Tokens) -> None:
        self._tokens, self.pending = tokens, b""

    def allowed(self) -> Mask:
        """The tokens that may follow."""
        return self._tokens.allowed(self.pending)

    def accept(self, token: int) -> None:
        """Append a token."""
        decoder = _Decoder()
        decoder.decode(self.pending + self._tokens.pieces[token])
        self.pending = decoder.getstate()[0]


def _is_valid(pending: bytes, piece: bytes) -> bool:
    try:
        _Decoder().decode(pending + piece)
    except UnicodeDecodeError:
        return False
    return bool(piece) or not pending
