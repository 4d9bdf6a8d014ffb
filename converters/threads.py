"""Work shared by threads: each takes the next item when it is done with one."""

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
    """`do(item)` for each item in `threads` threads; `take(result)` here, in the order in which they are done.

    The first exception of any thread, and KeyboardInterrupt, is raised once no thread works any more. Raises
    EdgeLLMError where so many threads cannot be had.
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
        except BaseException as error:  # whatever it is, it is raised in the calling thread
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
        started.append(thread)  # before it starts: it is waited for wherever an interrupt comes
        try:
            thread.start()
        except RuntimeError as error:
            raise EdgeLLMError(f"this system lets us start {number} threads, not {threads}; choose fewer") from error


def _take_all(done: "SimpleQueue[R | _Raised | None]", threads: int, take: Callable[[R], None]) -> None:
    """Results until all threads have ended."""
    while threads:
        result = done.get()
        if isinstance(result, _Raised):
            raise result.error
        if result is None:
            threads -= 1
        else:
            take(result)
