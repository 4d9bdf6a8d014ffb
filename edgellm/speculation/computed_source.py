"""What the replies of a session share of a source that computes drafts: its engine, how long it takes, if it works."""

import warnings
from collections.abc import Callable
from collections.abc import Sequence as Ids
from time import perf_counter
from typing import Any

from edgellm.engine.outputs import Outputs
from edgellm.engine.prompt_times import PromptTimes
from edgellm.engine.protocol import Segment, Sequence
from edgellm.engine.step_times import StepTimes
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, NoMemoryError
from edgellm.speculation.drafter import ComputedDrafter, DraftEngine

_LEAST_EXTRA = 8
"""Fewer rows of the text than these add so little to a pass that their time would be noise."""

_LAG_SHARE = 0.12
"""The time of a row of a long batch relative to a pass of one row, until it is known. (Measured with AMX on Emerald
Rapids, 1.2B: 16 more rows take 64 ms, where one takes 34.)"""

_COLD = 2
"""Passes until they are believed where they took longer than expected."""

MakeDrafter = Callable[[Ids[int], Sequence], ComputedDrafter]
"""Makes the drafter of a reply, from the ids of its text so far and the sequence of the target that has them."""


def warn_aside(text: str) -> None:
    """Warn of what ends drafts. Where a filter makes that an error, it is shown, and what runs goes on: others wait."""
    try:
        warnings.warn(text, EdgeLLMWarning, stacklevel=3)
    except EdgeLLMWarning as warning:
        warnings.showwarning(warning, EdgeLLMWarning, __file__, 1)


class ComputedSource:
    """An engine that drafts, for all replies of a session. `drafter` makes the drafter of a reply.

    `relative_cost` is the expected time of a pass relative to a step of the target, until one was measured. A pass
    reads `pass_bytes` bytes of weights. `freed` counts how often a drafter left its memory to others. `end` is called
    within the turn of the engines once it does not work any more.
    """

    def __init__(
        self,
        name: str,
        engine: DraftEngine,
        drafter: MakeDrafter,
        relative_cost: float,
        pass_bytes: int = 0,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self.engine, self.drafter, self.relative_cost = name, engine, drafter, relative_cost
        self.pass_bytes, self.freed, self._end = pass_bytes, 0, end
        self.pass_times, self.lag_times, self.works = StepTimes(), PromptTimes(), True

    def compute(self, segments: Ids[Segment[Any]]) -> Outputs:
        """Compute a pass, and learn how long it takes. Raises Stopped and EdgeLLMError."""
        began = perf_counter()
        outputs = self._computed(segments)
        self._record([len(segment.tokens) for segment in segments], perf_counter() - began)
        return outputs

    def _computed(self, segments: Ids[Segment[Any]]) -> Outputs:
        while True:
            try:
                return self.engine.compute(segments)
            except NoMemoryError:
                if not self.engine.evict():
                    raise

    def fail(self, error: Exception) -> None:
        """It drafts nothing any more, as an error came; a warning says which."""
        if self.works:
            self.works = False
            self._end()
            kind = "" if isinstance(error, EdgeLLMError) else f"{type(error).__name__}: "
            why = str(error).removeprefix(f"{self.name}: ")
            warn_aside(f"{self.name}: {kind}{why}; replies go on without its drafts")

    def _record(self, rows: Ids[int], seconds: float) -> None:
        """Passes of about a row each tell the time of a pass, those with more what rows of the text add to it."""
        extra = sum(rows) - len(rows)
        if extra < _LEAST_EXTRA:
            self.pass_times.record(sum(rows), seconds)
        elif known := self.pass_times.seconds(len(rows)):
            self.lag_times.record(extra, 0, max(0.0, seconds - known))

    def pass_seconds(self, rows: int, step_seconds: float, decay: float = 1.0) -> float:
        """Expected seconds of a pass for `rows` replies, where a step of the target for one takes `step_seconds`.

        As the first pass may read weights from a disk, a longer time than `relative_cost` is believed from the second
        one on; `decay` is a factor on it, down to the shorter one.
        """
        measured, expected = self.pass_times.seconds(rows), self.relative_cost * step_seconds
        if not measured or (measured > expected and self.pass_times.count(rows) < _COLD):
            return expected
        return max(min(measured, expected), decay * measured)

    def lag_seconds(self, tokens: int, step_seconds: float) -> float:
        """Expected seconds that a pass takes longer for `tokens` more tokens of the text."""
        if self.lag_times.known:
            return self.lag_times.seconds(tokens, 0)
        return _LAG_SHARE * tokens * self.pass_seconds(1, step_seconds)
