"""Several generations at once, each in a thread of its own, so that the session computes them together."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Protocol, TypeVar

from edgellm.engine.protocol import Stopped
from edgellm.generate.generation import Generation
from edgellm.generate.results import Completion
from edgellm.system.interrupts import POLL_S, held_interrupts

T = TypeVar("T")

MOST_AT_ONCE = 16
"""Generations that run at once; the others wait. A step of 16 sequences still reads all weights once."""


class Cancellable(Protocol):
    """What any thread may cancel: a generation, or a chat."""

    def cancel(self) -> None:
        """End what runs."""


C = TypeVar("C", bound=Cancellable)


class GenerationGroup:
    """Generations that run at once; an error of one cancels the others, and `cancel` all of them.

    Each work of `run` starts one, has it `cancelling`, and reads its tokens as they come, in a thread of its own.
    """

    def __init__(self) -> None:
        self._lock, self._cancelled = Lock(), False
        self._running: dict[object, Cancellable] = {}

    def run(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """The results of works, in their order; up to MOST_AT_ONCE run at once, a single one in this thread.

        Raises the first error of a work, or Ctrl-C, when all have ended; and Stopped after `cancel`.
        """
        results = [works[0]()] if len(works) == 1 else self._run_in_threads(works)
        if self._cancelled:
            raise Stopped
        return results

    def _run_in_threads(self, works: Sequence[Callable[[], T]]) -> list[T]:
        threads = min(MOST_AT_ONCE, len(works)) or 1
        with held_interrupts() as check, ThreadPoolExecutor(threads, "edgellm generation") as pool:
            done = list[Future[T]]()
            try:
                for work in works:
                    done.append(pool.submit(work))
                failed = _first_failed(done, check)
                return [each.result() for each in ([failed] if failed else done)]
            except BaseException:
                for each in done:
                    each.cancel()
                self.cancel()
                raise

    @contextmanager
    def cancelling(self, running: C) -> Iterator[C]:
        """Have `cancel` cancel what runs in this context. After `cancel`, cancels it and raises Stopped."""
        ticket = object()
        with self._lock:
            cancelled, self._running[ticket] = self._cancelled, running
        try:
            if cancelled:
                running.cancel()
                raise Stopped
            yield running
        finally:
            del self._running[ticket]

    def cancel(self) -> None:
        """Cancel all that runs, and what would begin later. Any thread may call it."""
        with self._lock:
            self._cancelled, running = True, list(self._running.values())
        for each in running:
            each.cancel()


def _first_failed(running: Sequence[Future[T]], check: Callable[[], None]) -> Future[T] | None:
    """Wait until all have ended, or one fails, which is returned. `check` may raise meanwhile."""
    left = set(running)
    while left:
        check()
        ended, left = wait(left, POLL_S, FIRST_EXCEPTION)
        if failed := next((each for each in ended if each.exception()), None):
            return failed
    return None


def complete_all(starts: Sequence[Callable[[], Generation]]) -> list[Completion]:
    """The completions of generations, in their order; errors are those of `GenerationGroup.run`."""
    group = GenerationGroup()

    def complete(start: Callable[[], Generation]) -> Completion:
        with group.cancelling(start()) as generation:
            return generation.completion()

    return group.run([partial(complete, start) for start in starts])
