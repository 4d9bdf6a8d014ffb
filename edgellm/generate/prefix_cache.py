"""The prefix cache: sequences with computed keys and values that later requests continue.

Each conversation has a part of it, so that none pushes the branches of another one out. All are searched for a prompt.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Ids
from contextlib import contextmanager
from itertools import pairwise
from threading import Lock
from time import perf_counter, sleep
from typing import NamedTuple
from weakref import WeakKeyDictionary

from edgellm.engine.protocol import Sequence, common_prefix
from edgellm.generate.cancel_flag import CancelFlag
from edgellm.generate.session import Session
from kquants.kv_layout import PAGE

MAX_SEQUENCES = 8
"""Sequences that a conversation keeps."""

MIN_FORK_TOKENS = 8
"""Tokens that only one sequence holds are kept by a fork from this number on; fewer are computed again as quickly."""

_MIN_CAPACITY = 4096
"""Tokens that the cache may hold however short the conversation is, as long as two contexts hold them."""

_POLL_S = 0.01
"""Seconds between two looks at a prompt that is being computed."""

_PATIENCE_S = 5.0
"""Seconds after which a prompt is not waited for that did not go on meanwhile."""


class _Promise(NamedTuple):
    """A sequence that is used for a prompt and will hold its first `tokens` tokens."""

    sequence: Sequence
    prompt: list[int]
    tokens: int


class PrefixCache:
    """Sequences that the requests of a conversation leave behind. A request has its sequence to itself.

    A prompt gets the sequence with the longest common prefix, or a fork of it if the prompt would overwrite tokens
    that no other sequence holds. So a regenerated reply, an edited message or an older version of the conversation
    computes only its new tokens. If another conversation, or a request that runs, holds more of the prompt, it gets a
    fork of that; and if another request is about to compute more of it, it waits for that.

    The least recently used sequences are evicted: at most `max_sequences` are kept, with at most twice the tokens of
    the longest one (or 4096) in total. A prefix that sequences share counts once.
    """

    def __init__(self, session: Session, max_sequences: int = MAX_SEQUENCES) -> None:
        self._session, self._max_sequences = session, max_sequences
        self._free: list[Sequence] = []  # not in use, the least recently used first
        # With the prompts that they are used for. Weak, as Ctrl-C may come before their request can release them.
        self._in_use = WeakKeyDictionary[Sequence, list[int]]()
        self._lock = Lock()
        self.used = perf_counter()
        session.add_cache(self)

    @contextmanager
    def acquire(self, ids: Ids[int], cancel: CancelFlag) -> Iterator[Sequence]:
        """A sequence to compute `ids` with; it is released at the end. Raises Stopped after `cancel`."""
        sequence = self._take(list(ids), cancel)
        try:
            yield sequence
        finally:
            with self._lock:
                self._in_use.pop(sequence, None)
                self._free.append(sequence)
                del self._free[: -self._max_sequences]
                self.used = perf_counter()

    def evict(self) -> bool:
        """Free the least recently used sequence; False if all are in use. Nothing may be computed meanwhile."""
        with self._lock:
            if not self._free:
                return False
            # The traceback of a request that failed may refer to its sequence, and would keep the memory.
            self._free.pop(0).trim(0)
            return True

    def held(self) -> list[tuple[Sequence, list[int]]]:
        """All sequences, each with the tokens that it has or is about to have."""
        with self._lock:
            return [*((each, each.tokens) for each in self._free), *self._in_use.items()]

    def _take(self, ids: list[int], cancel: CancelFlag) -> Sequence:
        while True:
            found = self._session.exclusively(lambda: self._find(ids), cancel)
            if isinstance(found, Sequence):
                return found
            if not self._wait_for(found, cancel):
                return self._session.exclusively(lambda: self._choose(ids), cancel)

    def _find(self, ids: list[int]) -> Sequence | _Promise:
        """A sequence for a prompt; or what another request is about to compute of it that is worth to wait for."""
        others = self._all_held()
        reached = max((_reached(each, ids) for each, _ in others), default=0)
        for sequence, prompt in others:
            shared = common_prefix(prompt, ids)
            # One that holds other tokens is no longer computing that prompt: the reply has outgrown the context.
            if shared - reached >= PAGE and len(sequence) == sequence.shared_prefix(prompt) < shared:
                return _Promise(sequence, prompt, shared)
        return self._choose(ids)

    def _wait_for(self, promise: _Promise, cancel: CancelFlag) -> bool:
        """Wait until a sequence may hold what it promises, or its request has ended; False if it does not go on."""
        computed, since = -1, perf_counter()
        while True:
            sleep(_POLL_S)
            self._session.check_active(cancel)
            now, length = perf_counter(), len(promise.sequence)
            if length >= promise.tokens or all(prompt is not promise.prompt for _, prompt in self._all_held()):
                return True
            if length != computed:
                computed, since = length, now
            elif now - since > _PATIENCE_S:
                return False

    def _all_held(self) -> list[tuple[Sequence, list[int]]]:
        return [pair for cache in self._session.caches() for pair in cache.held()]

    def _choose(self, ids: list[int]) -> Sequence:
        """A sequence for a prompt, which is in use from now on. Nothing may be computed meanwhile."""
        own = _best(reversed(self._free), ids)
        other = _best((each for each, _ in self._all_held() if each not in self._free), ids)
        with self._lock:
            if other and _reached(other, ids) >= MIN_FORK_TOKENS + (_reached(own, ids) if own else 0):
                self._evict_for([ids])
                chosen = other.fork()
                chosen.trim(chosen.shared_prefix(ids))
            elif own:
                chosen = self._continue(own, ids)
            else:
                chosen = self._session.engine.new_sequence()
            self._in_use[chosen] = ids
        return chosen

    def _continue(self, own: Sequence, ids: list[int]) -> Sequence:
        """A free sequence or a fork of it, to compute a prompt with."""
        self._free.remove(own)
        if self._max_sequences == 1 or self._lost_tokens(own, ids) < MIN_FORK_TOKENS:
            self._evict_for([ids])
            return own
        self._evict_for([ids, own.tokens])
        self._free.append(own)
        return own.fork()

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


def _reached(sequence: Sequence, ids: list[int]) -> int:
    """How many tokens of a prompt a sequence has after it went back to continue it."""
    return sequence.reach(sequence.shared_prefix(ids))


def _best(sequences: Iterable[Sequence], ids: list[int]) -> Sequence | None:
    """That with the longest prefix that can be continued; then the fewest other tokens; then the first."""
    return max(sequences, key=lambda each: (_reached(each, ids), -len(each)), default=None)


def _distinct_tokens(texts: list[list[int]]) -> int:
    """The number of tokens of all texts, with shared prefixes counted once."""
    ordered = sorted(texts)  # each text then has its longest common prefix with a neighbour
    return sum(map(len, texts)) - sum(common_prefix(*pair) for pair in pairwise(ordered))
