"""What requests leave for later ones: the sequences of a conversation and of its branches."""

from collections.abc import Iterator
from collections.abc import Sequence as Ids
from contextlib import contextmanager
from itertools import pairwise
from threading import Lock

from edgellm.engine.protocol import Sequence, common_prefix
from edgellm.generate.session import Cancel, Session

MOST = 8
"""Sequences that a conversation keeps."""

WORTH = 8
"""Tokens from which on an end that only one sequence has is kept: fewer are as quickly computed again."""

_FEW = 4096
"""Tokens that may be kept whatever the length of the conversation, as long as two contexts would hold them."""


class Branches:
    """Sequences for requests; whoever runs has one to itself, and others do not wait for it.

    A prompt gets the sequence that holds most of it, or a fork if that would lose what no other one holds. So
    regenerating a reply, editing a message and going back to an older version compute only what is new.

    What was used longest ago is let go of: at most `most` sequences are kept, and all together no more tokens than
    two of the longest would have (or 4096 in all), what they share counted once.
    """

    def __init__(self, session: Session, most: int = MOST) -> None:
        self._session, self._most = session, most
        self._left: list[Sequence] = []  # in the order of use
        self._lock = Lock()
        session.holders.add(self)

    @contextmanager
    def lease(self, ids: Ids[int], cancel: Cancel) -> Iterator[Sequence]:
        """A sequence to compute `ids` with. Raises Stopped after `cancel`."""
        sequence = self._take(list(ids), cancel)
        try:
            yield sequence
        finally:
            with self._lock:
                self._left.append(sequence)
                del self._left[: -self._most]

    def spare(self) -> bool:
        """Let go of the sequence used longest ago; False if there is none."""
        with self._lock:
            return bool(self._left and self._left.pop(0))

    def _take(self, ids: list[int], cancel: Cancel) -> Sequence:
        with self._lock:
            if not self._left:
                return self._session.engine.new_sequence()
            # Of those that hold as much of it, the one with the least besides; of these the one used last.
            best = max(reversed(self._left), key=lambda sequence: (sequence.shared_prefix(ids), -len(sequence)))
            self._left.remove(best)
            fork = self._most > 1 and self._lost(best, ids) >= WORTH
            self._bound([ids, best.tokens] if fork else [ids])
        if not fork:
            return best
        try:
            return self._session.fork(best, cancel)
        finally:
            with self._lock:
                self._left.append(best)

    def _lost(self, sequence: Sequence, ids: list[int]) -> int:
        """How many tokens nobody would hold any more, had the sequence gone over to `ids`."""
        kept = [sequence.shared_prefix(tokens) for tokens in [ids, *(other.tokens for other in self._left)]]
        return sequence.shared_prefix(sequence.tokens) - max(kept)

    def _bound(self, needed: list[list[int]]) -> None:
        """Drop what was used longest ago until the rest and what is `needed` keep within the bounds."""
        while self._left:
            texts = [*needed, *(sequence.tokens for sequence in self._left)]
            room = min(2 * self._session.engine.ctx, max(_FEW, 2 * max(map(len, texts))))
            if _distinct(texts) <= room:
                return
            del self._left[0]


def _distinct(texts: list[list[int]]) -> int:
    """How many tokens there are if what texts begin with alike counts once."""
    ordered = sorted(texts)  # so that each has most in common with its neighbours
    return sum(map(len, texts)) - sum(common_prefix(*pair) for pair in pairwise(ordered))
