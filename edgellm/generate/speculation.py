"""Speculative decoding: a step computes drafted tokens beside the one that is certain, and they may turn out right.

Decoding waits for the memory, through which all weights come for each step: four rows of a batch take it little longer
than one, and eight hardly twice as long. A row's logits have the same bits in any batch (`Engine.batch_invariant`), and
what is drawn from them depends on seed and place alone. So the text is the same with and without it, whatever the
sampling; drafts, and how many of them pay, change nothing but its speed.
"""

from collections import deque
from dataclasses import dataclass

from edgellm.engine.protocol import Logits, Sequence
from edgellm.generate.prompt_lookup import LENGTHS, PromptLookup
from edgellm.generate.session import Cancel, Session
from kquants.kv_layout import PAGE

MOST = 7
"""Tokens of a draft at most: steps of 2, 4, 8 and 9 rows take a 1.2B model on a Zen 4 1.0 to 1.2, 1.2 to 1.5, 1.6 to
2.5 and 2.3 to 4 times as long as those of one, the less the slower the memory is."""

_USUAL = 1.0, 1.05, 1.3, 2.0
"""What steps with 0, 1, 2 to 3 and 4 to 7 drafted tokens take of the time of the first, until they are measured. They
are kinds of their own: two, four and eight rows are multiplied at once, eight in most formats by weights that are
unpacked for them (see `kquants.matmul.tiled_decode`, and `TOGETHER` of `kquants.matmul.multiply`)."""

_RIGHT = {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.4, 4: 0.6, 8: 0.75, 16: 0.85}
"""How often the first token of a draft is right after so many that matched, until it is known."""

_FORGOTTEN = 0.998
"""What is left of a cost after each step of other kinds: in the end it is tried again, as much may have changed."""

assert set(_RIGHT) == {0, *LENGTHS} and MOST.bit_length() == len(_USUAL) - 1


@dataclass
class _Cost:
    """Seconds that a kind of steps takes, 0 before they are known; and how many steps of other kinds came since."""

    seconds: float = 0.0
    unused: int = 0

    def took(self, seconds: float) -> None:
        """Such a step took so long."""
        if self.seconds:  # what takes much longer than usual was disturbed
            seconds = 0.7 * self.seconds + 0.3 * min(seconds, 2 * self.seconds)
        self.seconds, self.unused = seconds, 0

    def expected(self, usual: float) -> float:
        """Seconds that such a step may take now, if it usually takes so many."""
        return (self.seconds or usual) * _FORGOTTEN**self.unused


class Wager:
    """How many tokens of a draft to compute: by how often drafts were right, and how long steps took."""

    def __init__(self) -> None:
        self._right, self._costs = dict(_RIGHT), [_Cost() for _ in _USUAL]

    def tokens(self, most: int, matched: int) -> int:
        """How many of `most` drafted tokens, after so many that matched, give most tokens a second.

        None before it is known what a step without takes.
        """
        plain, right = self._costs[0].seconds, self._right[matched]
        if not plain:
            return 0

        def speed(count: int) -> float:
            kind = _kind(count)
            return sum(right**i for i in range(count + 1)) / self._costs[kind].expected(plain * _USUAL[kind])

        return max((min(count, most) for count in (0, 1, 3, MOST)), key=speed)  # the fewest, if they are as good

    def judged(self, matched: int, right: bool) -> None:
        """A token drafted after so many that matched was right, or wrong."""
        self._right[matched] += 0.1 * (right - self._right[matched])

    def took(self, count: int, seconds: float) -> None:
        """A step with so many drafted tokens took so long."""
        for cost in self._costs:
            cost.unused += 1
        self._costs[_kind(count)].took(seconds)


def _kind(count: int) -> int:
    """Of steps with so many drafted tokens."""
    return count.bit_length()


class Speculation:
    """Decodes a sequence token by token, and computes drafts where that pays. Use it as a context manager.

    `lookup` has the sequence's tokens, and each drawn one before it is decoded. `guessed` counts the tokens whose
    logits were there already, as they were drafted. At the end the sequence holds what is certain and no more, unless
    an interrupt broke into a step.
    """

    def __init__(self, session: Session, sequence: Sequence, lookup: PromptLookup, cancel: Cancel) -> None:
        self.guessed = 0
        self._session, self._sequence, self._lookup, self._cancel = session, sequence, lookup, cancel
        self._wager, self._matched = Wager(), 0
        # Drafted tokens that may come next; and the logits [vocab] after those of them that were computed, which the
        # sequence holds behind the certain ones.
        self._drafted, self._ahead = deque[int](), deque[Logits]()

    def __enter__(self) -> "Speculation":
        return self

    def __exit__(self, *error: object) -> None:
        self._forget()

    @property
    def held(self) -> int:
        """How many tokens of the sequence are certain."""
        return len(self._sequence) - len(self._ahead)

    def decode(self, token: int) -> Logits:
        """The logits [vocab] after the token that was drawn last.

        Raises Stopped after `cancel`, and EdgeLLMError once the model is closed.
        """
        if self._drafted:
            right = self._drafted.popleft() == token
            self._wager.judged(self._matched, right)
            if right and self._ahead:
                self._session.check_wanted(self._cancel)  # as the session does where it computes
                self.guessed += 1
                return self._ahead.popleft()
        self._forget()
        return self._step(token)

    def _step(self, token: int) -> Logits:
        draft = self._draft()
        computed, seconds = self._session.decode(self._sequence, [token, *draft], self._cancel)
        self._wager.took(len(draft), seconds)
        self._ahead.extend(computed[1:])
        first: Logits = computed[0]
        return first

    def _draft(self) -> list[int]:
        """The drafted tokens that pay: none that would need memory of their own, another page, and fail without it."""
        length, engine = len(self._sequence), self._session.engine
        most = min(MOST, PAGE - 1 - length % PAGE, engine.ctx - length - 1)
        if most < 1 or not engine.batch_invariant:
            return []
        tokens, self._matched = self._lookup.draft(most)
        count = self._wager.tokens(len(tokens), self._matched)
        self._drafted.extend(tokens[: max(1, count)])  # one of which none is computed is judged, too
        return tokens[:count]

    def _forget(self) -> None:
        """Let the sequence hold what is certain, and no more. (Nobody else computes with it, nor with its pages.)"""
        if self._ahead:
            self._sequence.trim(self.held)
            self._ahead.clear()
        self._drafted.clear()
