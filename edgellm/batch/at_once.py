"""Many requests at once with one model, each in a thread: the model computes them together, batch by batch."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from edgellm.batch.answers import BatchAnswer, CancelledError, Generate
from edgellm.engine.protocol import Stopped
from edgellm.generate.at_once import GenerationGroup
from edgellm.model import Model
from edgellm.server.events import Event, ReplyEnd, ReplyPart
from edgellm.server.generating import Emit, Generating
from edgellm.server.work import Work
from edgellm.system.interrupts import POLL_S, held_interrupts

AT_ONCE = 32
"""Requests at once. (Measured, 1.2B Q4_K_M, two threads: steps of 8, 16, 24 and 32 sequences give 93, 99, 136 and 169
tokens/s, one of a single sequence 29.)"""

_SLO_ITL = 60.0
"""Seconds that a batch of rows may take: whole prompts go into it beside the steps of replies. (Measured, as above, 32
prompts of 64 tokens: 90 tokens/s, 49 where prompts had what 0.1 s leave.)"""

Answering = Callable[[int, Generate], BatchAnswer]
"""Answers the request of an index."""


@dataclass
class RequestRunner:
    """Does the work of requests with one model; `tokens` counts what was generated so far. Any thread may use it."""

    model: Model
    tokens: int = 0
    _group: GenerationGroup = field(default_factory=GenerationGroup)
    _lock: Any = field(default_factory=Lock)

    def __call__(self, work: Work, emit: Emit) -> None:
        """Do work. Raises OptionError and EdgeLLMError, and CancelledError after `cancel`."""
        counted = Counter[int]()  # by reply, as several of a request run at once

        def take(event: Event) -> None:
            added = int(isinstance(event, ReplyPart))
            if isinstance(event, ReplyEnd):  # some tokens come without a part, and some parts without a token
                added = event.stats.generated_tokens - counted[event.choice]
            counted[event.choice] += added
            with self._lock:
                self.tokens += added
            emit(event)

        try:
            with self._group.cancelling(Generating(work, self.model, take)) as generating:
                generating()
        except Stopped:
            raise CancelledError from None

    def cancel(self) -> None:
        """End all work, now and later."""
        self._group.cancel()


def open_model(path: Path, load: Mapping[str, Any], **progress: Any) -> Model:
    """Open a model for a batch: in the order of its requests, and for throughput in place of latency."""
    return Model.open(path, schedule="fcfs", slo_itl=_SLO_ITL, **load, **progress)


def at_once_of(model: Model) -> int:
    """How many requests at once pay: one where the engine computes one at a time."""
    return AT_ONCE if model.engine.batch_invariant else 1


def answer_all(
    indices: Iterable[int], answering: Answering, runner: RequestRunner, at_once: int
) -> Generator[BatchAnswer | None, None, None]:
    """The answers, as they come; None when a moment went by without one.

    Raises what ends a run, such as errors of the machine. Closing the iterator cancels what runs, and so does Ctrl-C.
    """
    left, running = iter(indices), set[Future[BatchAnswer]]()
    with held_interrupts() as check, ThreadPoolExecutor(at_once, "edgellm request") as pool:
        try:
            while True:
                check()
                while len(running) < at_once and (index := next(left, None)) is not None:
                    running.add(pool.submit(answering, index, runner))
                if not running:
                    return
                done, running = wait(running, POLL_S, FIRST_COMPLETED)
                yield from (each.result() for each in done)
                if not done:
                    yield None
        finally:
            runner.cancel()
