"""What one batch does: the drafts of its steps first, then its rows; and what goes on where that fails."""

from collections.abc import Callable
from time import perf_counter

from edgellm.engine.protocol import Engine, Logits, Segment, Sequence, Stopped
from edgellm.errors import EdgeLLMError, NoMemoryError
from edgellm.generate.batching.admission import Admission
from edgellm.generate.batching.arrivals import Arrivals
from edgellm.generate.batching.computation import Computation
from edgellm.generate.batching.schedule import Chosen, Schedule
from edgellm.speculation.rounds import draft_round

_LEAST_PART = 16
"""Tokens of a prompt that are computed in smaller parts, if memory is short, are more than this."""


class BatchExecutor:
    """Computes batches of the computations that are `waiting`, for who has the turn; those that end leave these.

    `check_open` raises once the model is closed; `evict` frees memory, or says no.
    """

    def __init__(
        self,
        engine: Engine,
        schedule: Schedule,
        waiting: dict[Computation, None],
        admission: Admission,
        arrivals: Arrivals,
        check_open: Callable[[], None],
        evict: Callable[[], bool],
    ) -> None:
        self._engine, self._schedule, self._waiting, self._admission = engine, schedule, waiting, admission
        self._arrivals, self._check_open, self._evict = arrivals, check_open, evict

    def compute(self, chosen: Chosen) -> None:
        """Compute a batch for requests whose cancel flags have joined it. Errors end computations of their own."""
        # In this order: a cancel after `clear_stop` may stop the engine; an earlier one is seen here.
        self._engine.clear_stop()
        self._check_open()
        wanted = [(each, rows) for each, rows in chosen if self._is_wanted(each)]
        for computation, _ in wanted:
            computation.begin()
        self._forward(self._with_drafts(wanted))

    def _with_drafts(self, chosen: Chosen) -> Chosen:
        """Compute the drafts of steps; returns what the batch computes then. Beside prompts no step gets any."""
        drafting = [each.drafting for each, _ in chosen if each.drafting]
        if not drafting or not all(each.is_step for each, _ in chosen):
            return chosen
        draft_round(drafting, sum(rows for _, rows in chosen), self._engine.max_rows)
        for each, _ in chosen:
            each.take_drafts()
        return [(each, each.left) for each, _ in chosen if self._is_wanted(each)]

    def _is_wanted(self, computation: Computation) -> bool:
        return computation in self._waiting and not computation.cancel.requested

    def _forward(self, chosen: Chosen) -> None:
        """Compute a batch. If that fails, compute each part alone: an error is that of one request.

        If memory is short for a part of a prompt, its first half may still have room.
        """
        if not chosen or (error := self._advance(chosen)) is None:
            return
        self._check_open()
        if len(chosen) == 1:
            ((computation, rows),) = chosen
            if isinstance(error, NoMemoryError) and rows > _LEAST_PART and not computation.is_step:
                self._forward([(computation, rows // 2)])
            else:
                self._fail(computation, error)
        elif not isinstance(error, Stopped):
            for part in chosen:
                if self._is_wanted(part[0]) and self._admission.admits(part[0]):
                    self._forward([part])

    def _fail(self, computation: Computation, error: Exception) -> None:
        """End a computation, unless it can go on when others have given their memory."""
        has_drafts = computation.is_step and computation.segment.drafts  # these are not worth it
        if has_drafts or not isinstance(error, NoMemoryError) or not self._admission.make_room_for(computation):
            self._waiting.pop(computation, None)  # it has nothing to give to others any more
            computation.error = error

    def _advance(self, chosen: Chosen) -> Exception | None:
        """Compute a batch and give each part its logits; returns what the engine raised."""
        parts = [computation.next_part(rows) for computation, rows in chosen]
        prompts = [(rows, len(each.sequence)) for each, rows in chosen if not each.is_step]
        steps = sum(rows for each, rows in chosen if each.is_step)
        began = perf_counter()
        try:
            logits = self._logits(parts)
        except Exception as error:
            if isinstance(error, EdgeLLMError | Stopped):
                # A traceback would keep the sequences of the batch, and so their memory, in a cycle of references.
                error.__traceback__ = error.__context__ = None
            return error
        seconds = perf_counter() - began
        drafts = sum(part.drafts for part in parts)
        longer = (
            self._schedule.step_times.longer_seconds(steps, drafts, None if prompts else seconds) if drafts else 0.0
        )
        self._schedule.record(steps, prompts, seconds)
        at = 0
        for (computation, _), part in zip(chosen, parts, strict=True):
            end = at + len(part.wanted)
            rows = len(part.tokens) if computation.is_step else 1
            computation.advance(part, logits[at:end], longer * part.drafts / drafts if drafts else 0.0)
            at = end
            if not computation.left:
                self._waiting.pop(computation, None)
                self._arrivals.give(computation.cancel, seconds, rows)
        return None

    def _logits(self, parts: list[Segment[Sequence]]) -> Logits:
        while True:
            try:
                return self._engine.forward(parts)
            except NoMemoryError:  # nothing is evicted for states behind drafts; other drafts take no page of their own
                if any(part.drafts and part.sequence.needs_marks for part in parts) or not self._evict():
                    raise
