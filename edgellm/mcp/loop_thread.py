"""A thread with an event loop, for callers that know no coroutines."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import wait
from typing import Any, TypeVar

from edgellm.system.interrupts import held_interrupts

T = TypeVar("T")
_POLL_S = 0.05
_JOIN_S = 2.0


class CallStoppedError(Exception):
    """The user stopped a call."""


class LoopThread:
    """Runs coroutines in one event loop. It ends with the process, or with `close`.

    Raises OSError and RuntimeError if the system has no more files or threads.
    """

    def __init__(self, name: str) -> None:
        self._loop, self._end = asyncio.new_event_loop(), asyncio.Event()
        self._loop.set_exception_handler(lambda loop, context: None)  # the default one writes to the terminal
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def result(self, coroutine: Coroutine[Any, Any, T], timeout_s: float, cancelled: threading.Event) -> T:
        """The result of a coroutine. From any thread.

        Raises what the coroutine raises, TimeoutError, and CallStoppedError once `cancelled` is set. The coroutine is
        then cancelled, as it is if this thread is interrupted; nothing waits for that.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        end = time.monotonic() + timeout_s
        try:
            with held_interrupts() as check:
                while not cancelled.is_set():
                    if wait([future], _POLL_S).done:
                        return future.result()
                    if time.monotonic() > end:
                        raise TimeoutError
                    check()
            raise CallStoppedError
        finally:
            future.cancel()

    def close(self) -> None:
        """End the loop and the thread. Coroutines that still run are cancelled. Not from two threads at once."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._wait_for_end())

    async def _wait_for_end(self) -> None:
        await self._end.wait()
