"""A session: one engine that many requests share, one computation at a time."""

from collections.abc import Callable, Collection
from collections.abc import Sequence as Ids
from contextlib import suppress
from time import perf_counter
from typing import Protocol, TypeVar
from weakref import WeakSet

from edgellm.engine.protocol import TOO_LONG_ADVICE, Engine, Logits, Segment, Sequence, Stopped
from edgellm.errors import ContextOverflowError, EdgeLLMError, NoMemoryError, PromptError
from edgellm.generate.cancel_flag import CancelFlag
from edgellm.generate.fair_lock import FairLock, WaitCancelled
from edgellm.generate.prompt_segments import prompt_segments
from edgellm.generate.timing import PrefillProgress
from edgellm.system.fork import ForkGuard

T = TypeVar("T")


class Evictable(Protocol):
    """A cache of sequences."""

    def evict(self) -> bool:
        """Free one sequence that is not in use; False if there is none."""


class Session:
    """Prefill and decode for any number of requests. They share the engine batch by batch, first come, first served.

    `name` is the model's, for messages. From the beginning of `close` on every request raises; `closed` is True at its
    end. Each of `caches` is asked to evict a sequence when no memory is left for another KV page.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name, self.origin = engine, name, ForkGuard()
        self.closed = self._closing = False
        self.caches: WeakSet[Evictable] = WeakSet()
        self._lock = FairLock()

    def check_process(self) -> None:
        """Raises EdgeLLMError in a process that was forked from the one that opened the model."""
        self.origin.check(f"the model {self.name}")

    def check_open(self) -> None:
        """Raises EdgeLLMError if the model was closed, and as `check_process` does."""
        self.check_process()
        if self._closing:
            raise EdgeLLMError(f"the model {self.name} was closed; open it again")

    def check_active(self, cancel: CancelFlag) -> None:
        """Raises EdgeLLMError if the model was closed, and Stopped if the request was cancelled."""
        self.check_open()
        if cancel.requested:
            raise Stopped

    def check_fits(self, ids: Ids[int], advice: str = TOO_LONG_ADVICE) -> None:
        """Raises ContextOverflowError if a prompt is longer than the context, PromptError if it is empty."""
        over = len(ids) - self.engine.ctx
        if over > 0:
            problem = f"the prompt of {len(ids):,} tokens is {over:,} too long for the context of {self.engine.ctx:,}"
            raise ContextOverflowError(problem, advice)
        if not ids:
            raise PromptError("the prompt is empty, without even a BOS token to begin with", "give {prompt}")

    def rewind(self, sequence: Sequence, ids: Ids[int], cancel: CancelFlag) -> int:
        """Trim a sequence to its common prefix with `ids`; returns the tokens left. Raises Stopped after `cancel`.

        A sequence that cannot go back to the end of the prefix goes back further.
        """

        def trim() -> int:
            # The last token of a prompt is computed even if it is cached, as its logits are needed.
            left = sequence.trim(min(sequence.shared_prefix(ids), len(ids) - 1))
            sequence.mark()
            return left

        return self._exclusively(trim, cancel)

    def prefill(
        self,
        sequence: Sequence,
        ids: Ids[int],
        cancel: CancelFlag,
        progress: PrefillProgress | None = None,
        ends: Collection[int] = (),
    ) -> Logits:
        """Extend a sequence, after `rewind`, to exactly `ids`; returns the logits [vocab] of the last token.

        The sequence can go back later to where `prompt_segments` has marks; `ends` are the tokens that end messages.
        Raises Stopped after `cancel`; the sequence then holds the batches that were complete.
        """
        start = len(sequence)
        progress = progress or (lambda done, total: None)
        progress(0, len(ids) - start)
        for segment in prompt_segments(sequence, ids, self.engine.max_rows, ends):
            logits = self.forward(segment, cancel)
            progress(len(sequence) - start, len(ids) - start)
        last: Logits = logits[0]
        return last

    def hold(self, sequence: Sequence, length: int, cancel: CancelFlag) -> None:
        """`Sequence.hold`, where the sequence needs it. Raises Stopped after `cancel`."""
        if sequence.needs_marks:
            self._exclusively(lambda: sequence.hold(length), cancel)

    def decode(self, sequence: Sequence, tokens: Ids[int], cancel: CancelFlag) -> tuple[Logits, float]:
        """The logits [tokens, vocab] after each of the given tokens, and the seconds of the computation alone.

        All but the first are drafts, which the sequence can drop. Raises Stopped after `cancel`, and NoMemoryError.
        """

        def timed() -> tuple[Logits, float]:
            began = perf_counter()
            logits = self._compute(Segment(sequence, tokens, range(len(tokens)), drafts=len(tokens) - 1), cancel)
            return logits, perf_counter() - began

        return self._exclusively(timed, cancel)

    def forward(self, segment: Segment[Sequence], cancel: CancelFlag) -> Logits:
        """Wait for the engine and compute one segment; returns float32 [requested tokens, vocab].

        Raises Stopped after `cancel`, and EdgeLLMError once the model is closed.
        """
        return self._exclusively(lambda: self._compute(segment, cancel), cancel)

    def _compute(self, segment: Segment[Sequence], cancel: CancelFlag) -> Logits:
        with cancel.computing():
            # In this order: a cancel after `clear_stop` stops the engine, `check_active` sees an earlier one.
            self.engine.clear_stop()
            self.check_active(cancel)
            while True:
                try:
                    return self.engine.forward([segment])
                except Stopped:
                    self.check_open()
                    raise
                except NoMemoryError:  # for drafts, no sequence of another request is evicted
                    if segment.drafts or not any(cache.evict() for cache in list(self.caches)):
                        raise

    def _exclusively(self, work: Callable[[], T], cancel: CancelFlag) -> T:
        """Run `work` while no other request uses the engine. Raises Stopped if `cancel` comes before."""
        self.check_process()  # in a fork, a request of the parent would hold the lock for ever
        try:
            return self._lock.run(work, lambda: cancel.requested)
        except WaitCancelled:
            raise Stopped from None

    def run_if_idle(self, work: Callable[[], None]) -> None:
        """Run `work` unless a request uses the engine or the model is closed."""
        with suppress(WaitCancelled):
            self._lock.run(lambda: None if self._closing else work(), lambda: True)

    def fork(self, sequence: Sequence, cancel: CancelFlag) -> Sequence:
        """Another sequence with the same tokens, sharing their KV pages. Raises Stopped after `cancel`."""
        return self._exclusively(sequence.fork, cancel)

    def close(self) -> None:
        """Stop all computations and end the engine. If interrupted it can be called again.

        In a forked process it only frees the memory of that process.
        """
        self._closing = True
        if self.origin.in_owner_process():
            self.engine.stop()
            self._lock.run(self._end)
        else:
            self._end()

    def _end(self) -> None:
        self.engine.close()
        self.closed = True
