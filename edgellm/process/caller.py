"""A thread that makes calls, one after the other."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Call = tuple["Future[Any]", Callable[[], Any]]


class Caller:
    """Unlike an executor it makes calls until the program ends, also for threads that outlive the main one.

    Its lock-free queue lets a signal handler ask for a call while another is asked for.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread = threading.Thread(target=_make_all, args=(self._calls,), name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Have a call made after those asked for before."""
        made = Future[T]()
        self._calls.put((made, partial(call, *arguments)))
        return made

    def close(self) -> None:
        """End the thread after the calls asked for; later ones are never made."""
        self._calls.put(None)
        self._thread.join()


def _make_all(calls: "SimpleQueue[_Call | None]") -> None:
    while call := calls.get():
        _make(*call)
        del call  # while the next is waited for, nothing of this one is kept


def _make(made: "Future[T]", call: Callable[[], T]) -> None:
    try:
        made.set_result(call())
    except BaseException as error:
        made.set_exception(error)
