"""The prefix cache of a conversation: sequences with computed keys and values that later requests continue."""

from collections.abc import Iterator
from collections.abc import Sequence as Ids
from contextlib import contextmanager
from itertools import pairwise
from threading import Lock

from edgellm.engine.protocol import Sequence, common_prefix
from edgellm.generate.cancel_flag import CancelFlag
from edgellm.generate.session import Session

MAX_SEQUENCES = 8
"""Sequences that a conversation keeps."""

MIN_FORK_TOKENS = 8
"""Tokens that only one sequence holds are kept by a fork from this number on; fewer are computed again as quickly."""

_MIN_CAPACITY = 4096
"""Tokens that the cache may hold however short the conversation is, as long as two contexts hold them."""


class PrefixCache:
    """Sequences that requests leave behind. A request has its sequence to itself; others do not wait for it.

    A prompt gets the sequence with the longest common prefix, or a fork of it if the prompt would overwrite tokens
    that no other sequence holds. So a regenerated reply, an edited message or an older version of the conversation
    computes only its new tokens.

    The least recently used sequences are evicted: at most `max_sequences` are kept, with at most twice the tokens of
    the longest one (or 4096) in total. A prefix that sequences share counts once.
    """

    def __init__(self, session: Session, max_sequences: int = MAX_SEQUENCES) -> None:
        self._session, self._max_sequences = session, max_sequences
        self._free: list[Sequence] = []  # not in use, the least recently used first
        self._lock = Lock()
        session.caches.add(self)

    @contextmanager
    def acquire(self, ids: Ids[int], cancel: CancelFlag) -> Iterator[Sequence]:
        """A sequence to compute `ids` with; it is released at the end. Raises Stopped after `cancel`."""
        sequence = self._take(list(ids), cancel)
        try:
            yield sequence
        finally:
            with self._lock:
                self._free.append(sequence)
                del self._free[: -self._max_sequences]

    def evict(self) -> bool:
        """Free the least recently used sequence; False if all are in use."""
        with self._lock:
            return bool(self._free and self._free.pop(0))

    def _take(self, ids: list[int], cancel: CancelFlag) -> Sequence:
        with self._lock:
            if not self._free:
                return self._session.engine.new_sequence()
            # The longest prefix that can be continued; then the fewest other tokens; then the most recently used.
            best = max(reversed(self._free), key=lambda each: (each.reach(each.shared_prefix(ids)), -len(each)))
            self._free.remove(best)
            fork = self._max_sequences > 1 and self._lost_tokens(best, ids) >= MIN_FORK_TOKENS
            self._evict_for([ids, best.tokens] if fork else [ids])
        if not fork:
            return best
        try:
            return self._session.fork(best, cancel)
        finally:
            with self._lock:
                self._free.append(best)

    def _lost_tokens(self, sequence: Sequence, ids: list[int]) -> int:
        """How many tokens must be computed to have `sequence` again, after it was rewound to compute `ids`."""
        kept = [(sequence, ids), *((other, sequence.tokens) for other in self._free)]
        return sequence.shared_prefix(sequence.tokens) - max(
            one.reach(one.shared_prefix(tokens)) for one, tokens in kept
        )

    def _evict_for(self, needed: list[list[int]]) -> None:
        """Evict the least recently used sequences until the others, with the `needed` ones, are within the limit."""
        while self._free:
            texts = [*needed, *(sequence.tokens for sequence in self._free)]
            capacity = min(2 * self._session.engine.ctx, max(_MIN_CAPACITY, 2 * max(map(len, texts))))
            if _distinct_tokens(texts) <= capacity:
                return
            del self._free[0]


def _distinct_tokens(texts: list[list[int]]) -> int:
    """The number of tokens of all texts, with shared prefixes counted once."""
    ordered = sorted(texts)  # each text then has its longest common prefix with a neighbour
    return sum(map(len, texts)) - sum(common_prefix(*pair) for pair in pairwise(ordered))
