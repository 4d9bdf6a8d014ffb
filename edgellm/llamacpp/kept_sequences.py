"""The prefix cache of llama.cpp: sequences that requests have left, for prompts that begin with the same tokens.

llama.cpp's own cache holds the state of one context for all of them, and lets go of the least recently used by itself.
"""

from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Ids
from typing import Generic, TypeVar

from edgellm.engine.protocol import Sequence

MAX_SEQUENCES = 8
"""Sequences that are kept."""

MIN_FORK_TOKENS = 8
"""Tokens that only one sequence holds are kept by a fork from this number on; fewer are computed again as quickly."""

S = TypeVar("S", bound=Sequence)


class KeptSequences(Generic[S]):
    """The last sequences that were used. A prompt gets that which has most of it, or a fork that leaves it as it is.

    `new` makes an empty sequence. Nothing may be computed during a call, but for `retire`.
    """

    def __init__(self, new: Callable[[], S]) -> None:
        self._new, self._kept = new, list[S]()  # the least recently used first
        self._retired = deque[S]()

    def begin(self, ids: Ids[int]) -> S:
        """A sequence with the longest beginning of `ids` that is there, at most all but the last token."""
        self._settle()
        wanted = list(ids[:-1])
        best = max(reversed(self._kept), key=lambda each: (_reached(each, wanted), -len(each)), default=None)
        if best is None or not _reached(best, wanted):
            return self._new()
        if self._lost_tokens(best, wanted) < MIN_FORK_TOKENS:
            self._kept.remove(best)
        else:
            best = best.fork()
        best.trim(best.shared_prefix(wanted))
        return best

    def _lost_tokens(self, sequence: S, ids: list[int]) -> int:
        """How many tokens must be computed to have `sequence` again, after it went back to compute `ids`."""
        tokens, others = sequence.tokens, [each for each in self._kept if each is not sequence]
        kept = [_reached(sequence, ids), *(_reached(each, tokens) for each in others)]
        return sequence.shared_prefix(tokens) - max(kept)

    def retire(self, sequence: S) -> None:
        """Keep a sequence that is not used any more. Any thread may call this at any time."""
        self._retired.append(sequence)

    def evict(self) -> bool:
        """Free the least recently used sequence; False if there is none."""
        self._settle()
        if not self._kept:
            return False
        self._kept.pop(0).trim(0)
        return True

    def _settle(self) -> None:
        while self._retired:
            self._kept.append(self._retired.popleft())
        del self._kept[:-MAX_SEQUENCES]


def _reached(sequence: Sequence, ids: list[int]) -> int:
    """How many tokens of a prompt a sequence has after it went back to continue it."""
    return sequence.reach(sequence.shared_prefix(ids))
