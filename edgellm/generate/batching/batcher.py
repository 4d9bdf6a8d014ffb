"""Continuous batching: the request that has the engine's turn computes one batch for all requests that wait.

There is no thread beside those of the requests. A request that waits for logits asks for its turn; once it has it, it
computes a batch with its own tokens and those of the others, which then go on without a turn of their own.
"""

from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Ids
from contextlib import suppress
from threading import get_ident, main_thread
from typing import TypeVar

from edgellm.engine.protocol import Engine, Logits, Sequence, Stopped
from edgellm.generate.batching.admission import Admission
from edgellm.generate.batching.arrivals import Arrivals
from edgellm.generate.batching.cancel_flag import CancelFlag, join_batch
from edgellm.generate.batching.computation import Computation
from edgellm.generate.batching.executor import BatchExecutor
from edgellm.generate.batching.fair_lock import FairLock, WaitCancelled
from edgellm.generate.batching.schedule import Chosen, Schedule

T = TypeVar("T")

_POLL_S = 0.02
"""Seconds between two looks whether a request that has no memory may go on."""


class Batcher:
    """Computes what requests wait for. `check_open` raises once the model is closed; `evict` frees memory, or says no.

    An engine whose bits depend on the batch (`Engine.batch_invariant`) computes for one request at a time.
    """

    def __init__(
        self, engine: Engine, schedule: Schedule, check_open: Callable[[], None], evict: Callable[[], bool]
    ) -> None:
        self._engine, self._schedule = engine, schedule
        self.arrivals, self.step_times, self._lock = Arrivals(), schedule.step_times, FairLock()
        self._waiting: dict[Computation, None] = {}  # in the order in which they came
        self._admission = Admission(self._waiting, self.arrivals)
        self._executor = BatchExecutor(
            engine, schedule, self._waiting, self._admission, self.arrivals, check_open, evict
        )
        self._works: dict[object, None] = {}  # other work that waits for the engine
        self._first = deque[Callable[[], object]]()  # work that the next turn does first

    def compute(self, computation: Computation, progress: Callable[[int], None] = lambda done: None) -> Logits:
        """Wait until a computation is complete; returns its logits. `progress` gets the tokens done, after each batch.

        Raises Stopped after a cancel, and what the engine raised for this computation.
        """
        return self.compute_all([computation], progress)[0]

    def compute_all(
        self, computations: Ids[Computation], progress: Callable[[int], None] = lambda done: None
    ) -> list[Logits]:
        """As `compute`, for computations of one request on different sequences: they share batches."""
        try:
            self._waiting.update(dict.fromkeys(computations))  # in here, as Ctrl-C may come behind it
            for computation in computations:
                self._wait_for(computation, progress)
            return [computation.logits for computation in computations]
        finally:
            for computation in computations:
                self._waiting.pop(computation, None)
            for computation in computations:  # nothing may touch the sequences before the batch has ended
                while computation.running:
                    with suppress(WaitCancelled):
                        self._lock.run(lambda: None, lambda: not computation.running)  # noqa: B023 (called at once)

    def _wait_for(self, computation: Computation, progress: Callable[[int], None]) -> None:
        if computation.left:
            self.arrivals.came(computation.cancel)
        while computation.left:
            with suppress(WaitCancelled):
                self._lock.run(lambda: self._take_turn(computation), lambda: _is_released(computation))
            _raise_error(computation)
            if computation.advanced:
                computation.advanced = False
                progress(computation.done)
            elif computation.cancel.requested and not computation.running:
                raise Stopped

    def expected_ttft(self, prompt_tokens: int) -> float:
        """Seconds until the first token of a new prompt, behind those that wait; 0.0 until a speed is known."""
        waiting = [each.left for each in list(self._waiting) if not each.is_step]
        return self._schedule.ttft_s([*waiting, prompt_tokens], self.arrivals.decode_rows())

    def prompts_wait(self) -> bool:
        """Whether a prompt waits to be computed, not for memory."""
        return any(not each.is_step and self._admission.admits(each) for each in list(self._waiting))

    def waits_for_memory(self, sequence: Sequence) -> bool:
        """Whether what a sequence waits for is not computed before other requests have ended."""
        return any(each.extends(sequence) and not self._admission.admits(each) for each in list(self._waiting))

    def exclusively(self, work: Callable[[], T], cancel: CancelFlag) -> T:
        """Run `work` while nothing is computed. Raises Stopped if `cancel` comes before."""

        def in_turn() -> T:
            self._do_all_first()
            return work()

        ticket = object()
        try:
            self._works[ticket] = None  # in here, as Ctrl-C may come behind it
            self.arrivals.tell()
            return self._lock.run(in_turn, lambda: cancel.requested)
        except WaitCancelled:
            raise Stopped from None
        finally:
            self._works.pop(ticket, None)

    def do_first(self, work: Callable[[], object]) -> None:
        """Have the request with the next turn run `work` first. This method does not wait."""
        self._first.append(work)

    def _do_all_first(self) -> None:
        while self._first:
            self._first.popleft()()

    def run_if_idle(self, work: Callable[[], None]) -> None:
        """Run `work` unless a request waits or decodes."""
        with suppress(WaitCancelled):
            if not self._waiting and not self.arrivals.decode_rows():
                self._lock.run(work, lambda: True)

    def run_at_end(self, work: Callable[[], None]) -> None:
        """Run `work` after all that wait now."""
        self._lock.run(work)

    def _take_turn(self, own: Computation) -> None:
        """Compute a batch, unless `own` needs none any more, or must first let others have their turn."""
        if _is_released(own):
            return
        together = self._engine.batch_invariant
        if together and not self._gather():
            return
        self._do_all_first()
        own.drop_rejected()
        if own.is_step and len(self._waiting) == 1 and self._admission.admits(own):
            self._compute([(own, own.left)])  # what `_share_turn` would do, in the usual case
        else:
            self._share_turn(own, together)

    def _share_turn(self, own: Computation, together: bool) -> None:
        """Compute a batch for all that wait, or without `together` for the request of `own` alone."""
        admitted = waiting = self._admission.admitted()
        mine = [each for each in waiting if each.cancel is own.cancel]  # several of a beam search
        # Ctrl-C interrupts the main thread alone, perhaps amid a batch, which must then be no one else's.
        is_main = get_ident() == main_thread().ident
        if is_main and waiting != mine and self._lock.callers > 1:
            return
        if is_main or not together:
            waiting = mine
        waiting = [each for each in waiting if self._prepare(each)]
        if waiting:
            shared = together and (any(each.is_step for each in waiting) or self.arrivals.decode_rows(own.cancel) > 0)
            self._compute(self._schedule.choose(waiting, self._engine.max_rows, shared))
        elif not admitted and not self._works:  # all wait for memory
            self.arrivals.changed.wait(_POLL_S)
            self.arrivals.changed.clear()

    def _prepare(self, computation: Computation) -> bool:
        """Drop rejected drafts, resume what was preempted; False if the request has left, and may use the sequence."""

        def prepare() -> bool:
            if waits := computation in self._waiting:
                computation.drop_rejected()
                computation.resume()
            return waits

        return computation.hold(prepare)

    def _gather(self) -> bool:
        """Wait for requests that are about to ask for a token; False if other work came in between."""
        while not self._works and self.arrivals.wait_s():
            self.arrivals.changed.clear()
            if not self._works and (seconds := self.arrivals.wait_s()):  # what came before `clear` is seen here
                self.arrivals.changed.wait(seconds)
        return not self._works

    def _compute(self, chosen: Chosen) -> None:
        flags = [computation.cancel for computation, _ in chosen]
        try:
            for computation, _ in chosen:
                computation.running = True
            join_batch(flags, flags)
            self._executor.compute(chosen)
        finally:
            join_batch(flags, ())
            for computation, _ in chosen:
                computation.running = False
            self._lock.wake()


def _raise_error(computation: Computation) -> None:
    """Raise what ended a computation. No cycle of references may keep the sequences that its traceback refers to."""
    error, computation.error = computation.error, None
    try:
        if error:
            raise error
    finally:
        del error


def _is_released(computation: Computation) -> bool:
    """Whether a request need not wait any longer: for its turn, that is; its computation may go on."""
    if computation.advanced or computation.error:
        return True
    return computation.cancel.requested and not computation.running
