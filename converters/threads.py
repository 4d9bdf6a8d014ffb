"""Dynamic work sharing among threads: each takes the next item when it has finished one."""

from collections.abc import Callable, Iterable
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import NamedTuple, TypeVar

from edgellm.errors import EdgeLLMError

T = TypeVar("T")
R = TypeVar("R")


class _Raised(NamedTuple):
    error: BaseException


def parallel_for(do: Callable[[T], R], work: Iterable[T], threads: int, take: Callable[[R], None]) -> None:
    """Call `do(item)` for each item in `threads` threads, and `take(result)` in this one, in order of completion.

    The first exception of any thread, or KeyboardInterrupt, is raised after all threads have ended. Raises
    EdgeLLMError if the system cannot start that many threads.
    """
    items, taking, stopped = iter(work), Lock(), Event()
    done: SimpleQueue[R | _Raised | None] = SimpleQueue()

    def take_next() -> T | None:
        with taking:
            return None if stopped.is_set() else next(items, None)

    def run() -> None:
        try:
            while (item := take_next()) is not None:
                done.put(do(item))
        except BaseException as error:  # raised again in the calling thread
            stopped.set()
            done.put(_Raised(error))
        done.put(None)

    started: list[Thread] = []
    try:
        _start(run, threads, started)
        _take_all(done, threads, take)
    finally:
        stopped.set()
        for thread in started:
            if thread.ident is not None:
                thread.join()


def _start(run: Callable[[], None], threads: int, started: list[Thread]) -> None:
    for number in range(threads):
        thread = Thread(target=run, name=f"converter-{number}", daemon=True)
        started.append(thread)  # before it starts, so that an interrupt at any point still joins it
        try:
            thread.start()
        except RuntimeError as error:
            raise EdgeLLMError(f"this system lets us start {number} threads, not {threads}; choose fewer") from error


def _take_all(done: "SimpleQueue[R | _Raised | None]", threads: int, take: Callable[[R], None]) -> None:
    """Pass on results until all threads have ended."""
    while threads:
        result = done.get()
        if isinstance(result, _Raised):
            raise result.error
        if result is None:
            threads -= 1
        else:
            take(result)
