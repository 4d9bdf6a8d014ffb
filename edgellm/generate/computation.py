"""A computation that a request waits for: tokens that continue its sequence, computed batch by batch."""

from time import perf_counter

import numpy as np

from edgellm.engine.protocol import Logits, Segment, Sequence
from edgellm.generate.cancel_flag import CancelFlag


class Computation:
    """The tokens of a segment that wants logits. Several batches may share them, unless they are a step of a reply.

    `done` counts the tokens that were computed. `running` is true while a batch computes some of them, `advanced` after
    one did, until the request has seen it. `error` is what ended the computation early. `seconds` is the time of the
    last batch, None if it computed tokens of other requests as well.
    """

    def __init__(self, segment: Segment[Sequence], cancel: CancelFlag, is_step: bool = False) -> None:
        self.segment, self.cancel, self.is_step, self.since = segment, cancel, is_step, perf_counter()
        self.done = 0
        self.running = self.advanced = False
        self.error: Exception | None = None
        self.seconds: float | None = None
        self._logits: list[Logits] = []

    @property
    def left(self) -> int:
        """Tokens that are not computed yet."""
        return len(self.segment.tokens) - self.done

    @property
    def logits(self) -> Logits:
        """The logits of the wanted tokens, float32 [tokens, vocab], once all are computed."""
        return self._logits[0] if len(self._logits) == 1 else np.concatenate(self._logits)

    def next_part(self, rows: int) -> Segment[Sequence]:
        """The segment of the next `rows` tokens."""
        return self.segment.part(self.done, self.done + rows)

    def advance(self, part: Segment[Sequence], logits: Logits, seconds: float | None) -> None:
        """The next part was computed in a batch of `seconds`; `logits` are those that it wants, [tokens, vocab]."""
        if len(logits):
            self._logits.append(logits)
        self.done += len(part.tokens)
        self.seconds, self.advanced = seconds, True
