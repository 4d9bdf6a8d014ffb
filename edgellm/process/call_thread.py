"""A thread that makes calls, one after the other."""

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
Outcome = SimpleQueue[Callable[[], T]]
"""Where, once a call is made, something lies that returns what it returned, or raises what it raised.

To wait for it is one step, which an interrupt ends or does not; a Future has a lock that one may break.
"""
_Call = tuple[Outcome[Any], Callable[[], Any]]


class CallThread:
    """Unlike an executor it makes calls until the program ends, also for threads that outlive the main one.

    Its lock-free queue lets a signal handler ask for a call while another is asked for.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread = threading.Thread(target=_make_all, args=(self._calls,), name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[..., T], *arguments: Any) -> Outcome[T]:
        """Have a call made after those asked for before."""
        outcome: Outcome[T] = SimpleQueue()
        self._calls.put((outcome, partial(call, *arguments)))
        return outcome

    def close(self) -> None:
        """End the thread after the calls asked for; later ones are never made."""
        self._calls.put(None)
        self._thread.join()


def _make_all(calls: "SimpleQueue[_Call | None]") -> None:
    while call := calls.get():
        _make(*call)
        del call  # while the next is waited for, nothing of this one is kept


def _make(outcome: Outcome[T], call: Callable[[], T]) -> None:
    try:
        result = call()
    except BaseException as error:
        outcome.put(partial(_throw, error))
    else:
        outcome.put(lambda: result)


def _throw(error: BaseException) -> NoReturn:
    raise error
