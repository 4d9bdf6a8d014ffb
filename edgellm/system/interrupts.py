"""Ctrl-C at chosen moments only: at others, KeyboardInterrupt may leave the locks of a thread pool in a wrong state."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

POLL_S = 0.25
"""The longest time between two checks for Ctrl-C."""


@contextmanager
def held_interrupts() -> Iterator[Callable[[], None]]:
    """Hold Ctrl-C back. Calling what this gives raises KeyboardInterrupt if there was one; so does the end.

    A second Ctrl-C raises KeyboardInterrupt at once. Only the main thread gets any: in others nothing changes. Nor
    does it where Ctrl-C is ignored, or has a handler of its own.
    """
    held = list[int]()

    def check() -> None:
        if held:
            held.clear()
            raise KeyboardInterrupt

    if current_thread() is not main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return

    def hold(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        held.append(number)

    signal.signal(signal.SIGINT, hold)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    check()
