"""A computation that a request waits for: tokens that continue its sequence, computed batch by batch."""

from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

import numpy as np

from edgellm.engine.protocol import Logits, Segment, Sequence
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.speculation.drafting import Drafting

T = TypeVar("T")


class Computation:
    """The tokens of a segment that wants logits. Several batches may share them, unless they are a step of a reply.

    They follow the first `length` tokens of the sequence, which holds rejected drafts behind them; by default they
    follow all. `done` counts the tokens that were computed. `running` is true while a batch computes some of them,
    `advanced` after one did, until the request has seen it. `error` is what ended the computation early. `begun` is
    called when the first batch begins. `drafting` computes drafts for a step before its batch; `on_drafts` gets the
    seconds by which its drafts made their batch longer, in any thread.
    """

    def __init__(
        self,
        segment: Segment[Sequence],
        cancel: CancelFlag,
        is_step: bool = False,
        length: int | None = None,
        begun: Callable[[], None] = lambda: None,
        drafting: Drafting | None = None,
        on_drafts: Callable[[float], None] | None = None,
    ) -> None:
        self.cancel, self._is_step, self.since = cancel, is_step, perf_counter()
        self._segment: Segment[Sequence] | None = segment
        self._length, self._begun, self._drafting, self._on_drafts = length, begun, drafting, on_drafts
        self.done, self._tokens = 0, len(segment.tokens)
        self.running = self.advanced = False
        self.error: Exception | None = None
        self._logits: list[Logits] = []
        self._lost: Segment[Sequence] | None = None  # the tokens before, which must be computed again
        self._paused = False

    @property
    def segment(self) -> Segment[Sequence]:
        """The whole segment, until it is computed."""
        assert self._segment is not None
        return self._segment

    @property
    def sequence(self) -> Sequence:
        """The sequence that the tokens continue, until they are computed."""
        return self.segment.sequence

    def extends(self, sequence: Sequence) -> bool:
        """Whether it computes tokens of this sequence, and is not complete. Any thread may ask."""
        segment = self._segment
        return segment is not None and segment.sequence is sequence

    @property
    def is_step(self) -> bool:
        """Whether one batch must compute it: a step of a reply whose sequence has all tokens before."""
        return self._is_step and self._lost is None

    @property
    def drafting(self) -> Drafting | None:
        """What computes drafts for it, until it has them."""
        return None if self._tokens > 1 else self._drafting

    def take_drafts(self) -> None:
        """Compute the drafts of the round, too."""
        if self._drafting and (drafts := self._drafting.draft.tokens[: self._drafting.kept]):
            tokens = [*self.segment.tokens, *drafts]
            self._segment = Segment(self.sequence, tokens, range(len(tokens)), drafts=len(drafts))
            self._tokens = len(tokens)

    @property
    def is_new(self) -> bool:
        """Whether it is a prompt of which nothing was computed yet."""
        return not (self._is_step or self.done or self._lost)

    @property
    def left(self) -> int:
        """Tokens that are not computed yet."""
        return self._tokens - self.done + self._lost_left

    @property
    def ready(self) -> int:
        """Tokens of `left` that one batch may compute."""
        return self._lost_left or self.left

    @property
    def _lost_left(self) -> int:
        lost = self._lost  # once, as any thread may ask how much is left
        return len(lost.tokens) - len(lost.sequence) if lost else 0

    @property
    def logits(self) -> Logits:
        """The logits of the wanted tokens, float32 [tokens, vocab], once all are computed."""
        return self._logits[0] if len(self._logits) == 1 else np.concatenate(self._logits)

    def hold(self, work: Callable[[], T]) -> T:
        """Do `work` while the request cannot leave, and so not touch its sequence, unless it has left before."""
        running = self.running
        try:  # no context manager: Ctrl-C may come while one is entered, and would leave a request that never ends
            self.running = True
            return work()
        finally:
            self.running = running

    def drop_rejected(self) -> None:
        """Drop the rejected drafts. Accepted tokens that the sequence drops with them are computed again.

        After an interrupt another call does what is left.
        """
        length = self._length
        if length is not None:
            if length < len(self.sequence):
                self._lost = self._tokens_before(length)
                self.sequence.trim(length)
            self._lost = self._lost if self._lost_left else None
            self._length = None

    def _tokens_before(self, length: int) -> Segment[Sequence]:
        """The segment that computes the first `length` tokens of the sequence again."""
        sequence = self.sequence
        embeddings = {at: each for at, each in sequence.embeddings.items() if at < length}
        marks = [n - 1 for n in sequence.marked if n <= length]
        return Segment(sequence, sequence.tokens[:length], embeddings=embeddings, marks=marks)

    def begin(self) -> None:
        """A batch begins that computes some of the tokens."""
        begun, self._begun = self._begun, lambda: None
        begun()

    def next_part(self, rows: int) -> Segment[Sequence]:
        """The segment of the next `rows` tokens."""
        if self._lost:
            return self._lost.part(len(self.sequence), len(self.sequence) + rows)
        return self.segment.part(self.done, self.done + rows)

    def advance(self, part: Segment[Sequence], logits: Logits, longer_s: float = 0.0) -> None:
        """The next part was computed; `logits` are those that it wants, [tokens, vocab].

        Its drafts made the batch `longer_s` seconds longer.
        """
        if self._lost:
            if not self._lost_left:
                self._lost = None
            return
        if len(logits):
            self._logits.append(logits)
        self.done += len(part.tokens)
        if self.done == self._tokens:
            if self._on_drafts:
                self._on_drafts(longer_s)
            # So that the memory of the sequences is free once the request has ended.
            self._segment = self._drafting = self._on_drafts = None
        self.advanced = True

    def preempt(self) -> None:
        """Leave the memory of the sequence to others; its tokens are computed again before those that are left."""
        self._paused = True  # first: where Ctrl-C ends the request that preempts this one, `resume` completes it
        self._pause()

    def _pause(self) -> None:
        self.drop_rejected()
        if self._drafting:
            self._drafting.pause()
        if self._lost is None and len(self.sequence):
            self._lost = self._tokens_before(len(self.sequence))
        self.sequence.pause()

    def resume(self) -> None:
        """After `preempt`, continue from what the prefix cache still has of the tokens."""
        if self._paused:
            self._pause()  # does nothing, unless an interrupt came amid it
            self._paused = False
            if self._lost:
                self.sequence.resume([*self._lost.tokens, *self.segment.tokens[self.done : self.done + 1]])
                self._lost = self._lost if self._lost_left else None
