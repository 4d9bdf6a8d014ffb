"""A thread that makes calls, one after the other."""

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
Outcome = SimpleQueue[Callable[[], T]]
"""Gets, once a call is done, a function that returns its result, or raises its exception.

An interrupt cannot break the lock of a SimpleQueue while it is waited for, in contrast to that of a Future.
"""
_Call = tuple[Outcome[Any], Callable[[], Any]]


class CallThread:
    """Makes calls in a thread, in contrast to an executor also for threads that outlive the main thread.

    A signal handler may interrupt `submit` and call it itself, as the queue has no lock.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread = threading.Thread(target=_make_all, args=(self._calls,), name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[..., T], *arguments: Any) -> Outcome[T]:
        """Make a call after those submitted before."""
        outcome: Outcome[T] = SimpleQueue()
        self._calls.put((outcome, partial(call, *arguments)))
        return outcome

    def close(self) -> None:
        """End the thread after the calls submitted before; later ones are never made."""
        self._calls.put(None)
        self._thread.join()


def _make_all(calls: "SimpleQueue[_Call | None]") -> None:
    while call := calls.get():
        _make(*call)
        del call  # keep nothing of this call while waiting for the next


def _make(outcome: Outcome[T], call: Callable[[], T]) -> None:
    try:
        result = call()
    except BaseException as error:
        outcome.put(partial(_throw, error))
    else:
        outcome.put(lambda: result)


def _throw(error: BaseException) -> NoReturn:
    raise error
