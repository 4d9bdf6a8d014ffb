"""A guide that lets a model think before it is held to a form."""

from collections import deque
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from enum import Enum, auto
from itertools import takewhile

import numpy as np

from edgellm.guides.closing import Closing
from edgellm.guides.guide import Guide, Mask

Ids = tuple[int, ...]


class Stage(Enum):
    """Where a reply is: before it thinks or answers, inside of what it thinks, or in the answer."""

    BEFORE = auto()
    INSIDE = auto()
    ANSWER = auto()


@dataclass(frozen=True)
class ThinkingMarks:
    """The tokens around what a model thinks and around its answer.

    `opening` are those before a thought, `answer` those before the answer. `end` are written to end a thought for the
    model, `behind` follow the end that it writes itself. `again`: it may then think once more. `banned` are tokens that
    are no text of a thought. `openers` are those of the answer that end a thought by themselves: models forget to.
    """

    opening: Ids
    answer: Ids
    end: Ids
    behind: Ids
    again: bool
    banned: frozenset[int]
    closing: Callable[[], Closing]
    openers: frozenset[int] = frozenset()


class ThinkingGate:
    """Lets a model think, as long as `limit` tokens, and then holds it to `answer`. See `edgellm.guides.guide.Guide`.

    `free`: before the answer only the length of thinking is held to anything, and the answer begins as free text.
    """

    def __init__(
        self, answer: Guide, marks: ThinkingMarks, stage: Stage, limit: int | None, vocab: int, free: bool
    ) -> None:
        self._answer, self._marks, self._limit, self._free = answer, marks, limit, free
        self._stage, self._after = stage, stage
        self._lead: Ids = ()  # the tokens before the openings, if these are not written for the model
        self._chosen: Ids = ()  # the tokens of an opening that came so far
        self._queue = deque[int]()  # tokens that come next, after which the stage is `_after`
        self._thought, self._closing = 0, marks.closing()
        self._none = np.zeros(vocab, np.bool_)
        self._inside = ~self._mask(marks.banned)
        self.begun = False
        self._settle()

    def allowed(self) -> Mask | None:
        """The tokens that may come next."""
        if self._stage == Stage.ANSWER:
            return self._answer.allowed()
        if self._free:
            return None
        if self._stage == Stage.INSIDE:
            return self._closing.forbid(self._inside)
        openings = self._mask(option[len(self._chosen)] for option in self._options() if option)
        answer = None if self._chosen or self._marks.answer else self._answer.allowed()
        return openings if answer is None else openings | answer

    def accept(self, token: int) -> None:
        """Append a token."""
        if self._queue:
            self._queue.popleft()
            self._stage = self._stage if self._queue else self._after
        elif self._stage == Stage.INSIDE:
            self._think(token)
        elif self._stage == Stage.BEFORE:
            self._choose(token)
        else:
            self._accept_answer(token)
        self._settle()

    def fork(self) -> "ThinkingGate | None":
        """Another gate with a fork of the answer's guide; None if that has none."""
        answer = self._answer.fork()
        if answer is None:
            return None
        child = copy(self)
        child._answer, child._queue, child._closing = answer, self._queue.copy(), copy(self._closing)
        return child

    def forced(self) -> list[int]:
        """The tokens that come next whatever the model computes."""
        if self._queue:
            return list(self._queue)
        if self._stage == Stage.ANSWER:
            return self._answer.forced()
        if self._stage == Stage.INSIDE or self._free:
            return []
        rests = [option[len(self._chosen) :] for option in self._options()]
        return [ids[0] for ids in takewhile(lambda ids: len(set(ids)) == 1, zip(*rests, strict=False))]

    def _settle(self) -> None:
        """End a thought that has reached its limit; note what the attributes say."""
        if self._stage == Stage.INSIDE and not self._queue and not self._may_think():
            self._queue, self._after = deque(self._marks.end), Stage.ANSWER
        if self._stage == Stage.BEFORE and self._options() == [()]:
            self._stage = Stage.ANSWER
        answers = self._stage == Stage.ANSWER or not (self._chosen or self._marks.answer or self._stage == Stage.INSIDE)
        free = self._free and self._stage != Stage.ANSWER
        self.complete = free or (answers and not self._queue and self._answer.complete)
        self.ended = self._stage == Stage.ANSWER and not self._queue and self._answer.ended

    def _options(self) -> list[Ids]:
        """The openings that may go on from the tokens so far: that of a thought, and that of the answer."""
        thinks = self._free or self._may_think()  # what is free may begin a thought beyond the limit, which then ends
        openings = [self._marks.opening, self._marks.answer] if thinks else [self._marks.answer]
        options = [self._lead + opening for opening in openings]
        return [option for option in options if option[: len(self._chosen)] == self._chosen]

    def _may_think(self) -> bool:
        return self._limit is None or self._thought < self._limit

    def _think(self, token: int) -> None:
        self._thought += 1
        if token in self._marks.openers:
            self._stage = self._after = Stage.ANSWER
            self._accept_answer(token)
            return
        if not self._closing.push(token):
            return
        self._closing = self._marks.closing()
        self._stage = self._after = Stage.BEFORE if self._marks.again else Stage.ANSWER
        if self._free:
            self._lead = self._marks.behind
        else:
            self._queue = deque(self._marks.behind)

    def _choose(self, token: int) -> None:
        if not self._chosen and not self._marks.answer and self._is_answer(token):
            self._stage = Stage.ANSWER
            self._accept_answer(token)
            return
        self._chosen += (token,)
        options = self._options()
        if not options:  # they were no opening, but the beginning of free text
            self._stage, chosen, self._chosen = Stage.ANSWER, self._chosen, ()
            for each in chosen:
                self._accept_answer(each)
        elif self._chosen in options:
            self._stage = Stage.INSIDE if self._chosen == self._lead + self._marks.opening else Stage.ANSWER
            self._chosen = ()

    def _is_answer(self, token: int) -> bool:
        """Whether a token, where both may begin, begins the answer; the first token of a longer opening may, too."""
        if token != self._marks.opening[0]:
            return True
        allowed = self._answer.allowed() if len(self._marks.opening) > 1 and not self._free else self._none
        return allowed is not None and bool(allowed[token])

    def _accept_answer(self, token: int) -> None:
        self._answer.accept(token)
        self.begun = True

    def _mask(self, ids: Iterable[int]) -> Mask:
        mask = self._none.copy()
        mask[[i for i in ids if i < len(mask)]] = True
        return mask
