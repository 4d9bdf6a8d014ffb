"""A session: an engine that requests share, one computation at a time."""

import threading
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Ids
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Protocol, TypeVar
from weakref import WeakSet

from edgellm.engine.protocol import TOO_LONG_ADVICE, Engine, Logits, Segment, Sequence, Stopped
from edgellm.errors import ContextOverflowError, EdgeLLMError, NoMemoryError, PromptError
from edgellm.generate.fair_lock import GivenUp, Turns
from edgellm.system.fork import ForkGuard

T = TypeVar("T")

PrefillProgress = Callable[[int, int], None]
"""Called with (tokens computed, tokens to compute) at the beginning of a prompt and after each part of it."""


class Cancel:
    """A request's wish to stop, which any thread may set, also while a signal is handled."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.RLock()
        self._computing = False
        self.wanted = False

    def __call__(self) -> None:
        """Stop the request: what is being computed for it ends within milliseconds, and so does its waiting."""
        with self._lock:
            self.wanted = True
            if self._computing:
                self._engine.stop()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """While the engine computes for this request, the wish stops it; at other times it would stop another's."""
        try:
            self._computing = True
            yield
        finally:
            with self._lock:
                self._computing = False


class Holder(Protocol):
    """Who keeps sequences for later."""

    def spare(self) -> bool:
        """Let go of one that nobody uses now; False if there is none."""


class Session:
    """Prefill and decode for any number of requests; they take turns at the engine, part by part.

    `name` is the model's, for messages. Every request is an error from the beginning of `close` on; `closed` tells
    that it came to its end. `holders` are asked for what they can spare when there is no memory for more KV pages.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name, self.origin = engine, name, ForkGuard()
        self.closed = self._closing = False
        self.holders: WeakSet[Holder] = WeakSet()
        self._turns = Turns()

    def check_here(self) -> None:
        """Raises EdgeLLMError if this process was forked from the one that opened the model."""
        self.origin.check(f"the model {self.name}")

    def check_open(self) -> None:
        """Raises EdgeLLMError if the model was closed, and as `check_here` does."""
        self.check_here()
        if self._closing:
            raise EdgeLLMError(f"the model {self.name} was closed; open it again")

    def check_wanted(self, cancel: Cancel) -> None:
        """Raises EdgeLLMError if the model was closed, and Stopped after `cancel`."""
        self.check_open()
        if cancel.wanted:
            raise Stopped

    def check_fits(self, ids: Ids[int], advice: str = TOO_LONG_ADVICE) -> None:
        """Raises ContextOverflowError if a prompt is longer than the context, PromptError if it is empty."""
        over = len(ids) - self.engine.ctx
        if over > 0:
            told = f"the prompt of {len(ids):,} tokens is {over:,} too long for the context of {self.engine.ctx:,}"
            raise ContextOverflowError(told, advice)
        if not ids:
            raise PromptError("the prompt is empty, without even a BOS token to begin with", "give {prompt}")

    def rewind(self, sequence: Sequence, ids: Ids[int], cancel: Cancel) -> int:
        """Forget what of a sequence cannot serve to prefill `ids`; how many tokens are left. Stopped after `cancel`."""
        # The last token is computed even if it is there already: its logits are what is asked for.
        return self._take_turn(lambda: sequence.trim(min(sequence.shared_prefix(ids), len(ids) - 1)), cancel)

    def prefill(
        self,
        sequence: Sequence,
        ids: Ids[int],
        cancel: Cancel,
        progress: PrefillProgress | None = None,
    ) -> Logits:
        """Bring a sequence, after `rewind`, to hold exactly `ids`; the last one's logits [vocab].

        Raises Stopped after `cancel`; the sequence then holds the parts that were complete.
        """
        start = cached = len(sequence)
        progress = progress or (lambda done, total: None)
        progress(0, len(ids) - cached)
        while True:
            part = ids[start : start + self.engine.max_rows]
            logits = self.forward(Segment(sequence, part, [len(part) - 1]), cancel)
            start += len(part)
            progress(start - cached, len(ids) - cached)
            if start == len(ids):
                last: Logits = logits[0]
                return last

    def decode(self, sequence: Sequence, tokens: Ids[int], cancel: Cancel) -> tuple[Logits, float]:
        """The logits [tokens, vocab] after each of a few more tokens, and the seconds for them once it was their turn.

        Raises Stopped after `cancel`.
        """

        def timed() -> tuple[Logits, float]:
            began = perf_counter()
            logits = self._compute(Segment(sequence, tokens, range(len(tokens))), cancel)
            return logits, perf_counter() - began

        return self._take_turn(timed, cancel)

    def forward(self, segment: Segment[Sequence], cancel: Cancel) -> Logits:
        """Compute one segment when it is its turn; float32 [wanted, vocab].

        Raises Stopped after `cancel`, and EdgeLLMError once the model is closed.
        """
        return self._take_turn(lambda: self._compute(segment, cancel), cancel)

    def _compute(self, segment: Segment[Sequence], cancel: Cancel) -> Logits:
        with cancel.computing():
            # In this order: a wish that comes after `clear_stop` stops the engine, an earlier one is seen.
            self.engine.clear_stop()
            self.check_wanted(cancel)
            while True:
                try:
                    return self.engine.forward([segment])
                except Stopped:
                    self.check_open()
                    raise
                except NoMemoryError:
                    if not any(holder.spare() for holder in list(self.holders)):
                        raise

    def _take_turn(self, work: Callable[[], T], cancel: Cancel) -> T:
        """Do something when it is this request's turn. Raises Stopped if `cancel` comes before that."""
        self.check_here()  # whoever had the turn at a fork would have it for ever
        try:
            return self._turns.take(work, lambda: cancel.wanted)
        except GivenUp:
            raise Stopped from None

    def if_idle(self, work: Callable[[], None]) -> None:
        """Do something in a turn of its own, unless another has one now or the model is closed."""
        with suppress(GivenUp):
            self._turns.take(lambda: None if self._closing else work(), lambda: True)

    def fork(self, sequence: Sequence, cancel: Cancel) -> Sequence:
        """Another sequence with the same tokens, sharing their state. Raises Stopped after `cancel`."""
        return self._take_turn(sequence.fork, cancel)

    def close(self) -> None:
        """Stop what is being computed, for whomever, and end the engine. If interrupted it can be called again.

        After a fork, only the memory of this process is let go of.
        """
        self._closing = True
        if self.origin.in_owner_process():
            self.engine.stop()
            self._turns.take(self._end)
        else:
            self._end()

    def _end(self) -> None:
        self.engine.close()
        self.closed = True
