"""Speculative decoding: a step computes drafted tokens beside the one that is certain, and they may turn out right.

Decoding waits for the memory, through which all weights come for each step: two rows of a batch take it as long as
one, eight not twice as long. A row's logits have the same bits in any batch (`Engine.batch_invariant`), and what is
drawn from them depends on seed and place alone. So the text is the same with and without it, whatever the sampling;
drafts, and how many of them pay, change nothing but its speed.
"""

from collections import deque
from time import perf_counter

from edgellm.engine.protocol import Logits, Sequence, Stopped
from edgellm.lookup import LONGEST, PromptLookup
from edgellm.session import Cancel, Session

MOST = 7
"""Tokens of a draft: with the certain one they are as many rows as share a pass over the weights."""

_COSTS = 1.0, 1.05, 1.7
"""What steps with no drafted token, one, and more take of the time of the first, until it is measured. Of a 1.2B model
on a Zen 4: 1.0, 1.0, 1.6 to 1.7 (Q4_K_M) and 1.0, 1.0, 1.3 (Q8_0)."""

_RIGHT = 0.0, 0.1, 0.2, 0.4, 0.6
"""How often a drafted token is right after so many that matched, until it is known."""

_FORGOTTEN = 0.995
"""What is left, after a step, of the time that other kinds of steps took: so they are tried again some time."""

assert len(_RIGHT) == LONGEST + 1


class Wager:
    """How many tokens of a draft to compute: by how often drafts were right, and how long steps took."""

    def __init__(self) -> None:
        self._right, self._seconds = list(_RIGHT), list(_COSTS)
        self._measured = set[int]()

    def tokens(self, most: int, matched: int) -> int:
        """How many of `most` drafted tokens, after so many that matched, give most tokens a second."""
        right = self._right[matched]

        def speed(count: int) -> float:
            return sum(right**i for i in range(count + 1)) / self._seconds[_kind(count)]

        return max(sorted({0, min(1, most), most}), key=speed)  # the fewest, if they are as good

    def judged(self, matched: int, right: bool) -> None:
        """A token drafted after so many that matched was right, or wrong."""
        self._right[matched] += 0.1 * (right - self._right[matched])

    def took(self, count: int, seconds: float) -> None:
        """A step with so many drafted tokens took so long."""
        kind = _kind(count)
        if self._measured:
            seconds = min(seconds, 2 * self._seconds[kind])  # what takes much longer was disturbed
        if kind in self._measured:
            seconds = 0.7 * self._seconds[kind] + 0.3 * seconds
        self._measured.add(kind)
        for i, cost in enumerate(_COSTS):
            known = self._seconds[i] * _FORGOTTEN if i in self._measured else seconds / _COSTS[kind] * cost
            self._seconds[i] = seconds if i == kind else known


def _kind(count: int) -> int:
    return min(count, len(_COSTS) - 1)


class Speculation:
    """Decodes a sequence token by token, and computes drafts where that pays. Use it as a context manager.

    `lookup` has the sequence's tokens, and each drawn one before it is decoded. `guessed` counts the tokens whose
    logits were there already, as they were drafted. At the end the sequence holds nothing but what is certain.
    """

    def __init__(self, session: Session, sequence: Sequence, lookup: PromptLookup, cancel: Cancel) -> None:
        self.guessed = 0
        self._session, self._sequence, self._lookup, self._cancel = session, sequence, lookup, cancel
        self._wager, self._matched = Wager(), 0
        # Drafted tokens that the sequence holds behind the certain ones, and the logits [vocab] after each.
        self._ahead = deque[tuple[int, Logits]]()

    def __enter__(self) -> "Speculation":
        return self

    def __exit__(self, *error: object) -> None:
        if self._ahead:
            self._sequence.trim(self.held)  # touches nothing that another request computes with

    @property
    def held(self) -> int:
        """How many tokens of the sequence are certain."""
        return len(self._sequence) - len(self._ahead)

    def decode(self, token: int) -> Logits:
        """The logits [vocab] after the token that was drawn last.

        Raises Stopped after `cancel`, and EdgeLLMError once the model is closed.
        """
        began = perf_counter()
        self._session.check_open()
        if self._cancel.wanted:
            raise Stopped
        if self._ahead:
            drafted, logits = self._ahead[0]
            self._wager.judged(self._matched, drafted == token)
            if drafted == token:
                self._ahead.popleft()
                self.guessed += 1
                return logits
            self._session.trim(self._sequence, self.held, self._cancel)
            self._ahead.clear()
        draft = self._draft()
        computed = self._session.decode(self._sequence, [token, *draft], self._cancel)
        self._wager.took(len(draft), perf_counter() - began)
        after: Logits
        after, *following = computed
        self._ahead.extend(zip(draft, following, strict=True))
        return after

    def _draft(self) -> list[int]:
        engine = self._session.engine
        most = min(MOST, engine.max_rows - 1, engine.ctx - len(self._sequence) - 1)
        if most < 1 or not engine.batch_invariant:
            return []
        tokens, self._matched = self._lookup.draft(most)
        return tokens[: self._wager.tokens(len(tokens), self._matched)]
