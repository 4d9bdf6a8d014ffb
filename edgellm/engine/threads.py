"""A team of threads that runs programs together, sleeps between requests, and stops on a word.

The calling thread is one of them: it begins at once, and where it is the only one there are no others. It comes back
to Python from time to time, so that Python handles its signals: Ctrl-C sets the stop word and is raised when the
threads have met.
"""

import ctypes
import platform
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

import numpy as np

from edgellm.engine.memory import aligned
from edgellm.errors import EdgeLLMError
from kquants.layout import DONE, JOB, LINE_BYTES, LINES, SLEEPS, STOP, STOPPED, TEAM, control_bytes

RUNNING = ("post", "run")
"""The kernels that a team needs beside those of its programs: see `kquants.jobs`."""

_Integer = ctypes.c_int64
_FUTEX = {"x86_64": 202, "aarch64": 98}


def _system_calls() -> tuple[int, int, int]:
    """Addresses of `sched_yield` and, on Linux, of `syscall`, with the number of futex (else 0, 0)."""
    if sys.platform == "win32":
        return _address(ctypes.WinDLL("kernel32").SwitchToThread), 0, 0
    libc = ctypes.CDLL(None)
    number = _FUTEX.get(platform.machine(), 0) if sys.platform == "linux" else 0
    return _address(libc.sched_yield), _address(libc.syscall) if number else 0, number


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def _function(address: int, arguments: int) -> Callable[..., int]:
    """A kernel as a function of so many integers."""
    # Numba's own calling convention: a place for the result and one for an error come first.
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[_Integer] * arguments)(address)
    spare = _Integer()
    return partial(function, ctypes.byref(spare), None)


class ThreadPool:
    """`count` threads, the caller one of them, for programs of up to `ops` ops; each has `scratch_bytes` of memory.

    Those are SHARE_BYTES at least; see `kquants.interpreter`. `kernels` are addresses, of RUNNING at least.

    Raises EdgeLLMError where so many threads cannot be had.
    """

    def __init__(self, count: int, kernels: Mapping[str, int], ops: int, scratch_bytes: int) -> None:
        self._post, self._run = _function(kernels["post"], 4), _function(kernels["run"], 3)
        self._words = aligned(1, control_bytes(count, ops)).view(np.int64)[0]
        self._words[TEAM // 8 : TEAM // 8 + 4] = count, *_system_calls()
        self._sleeps = self._words[(LINES + SLEEPS) // 8 :: LINE_BYTES // 8][:count]
        self._sleeps[1:] = 1
        self._control = self._words.ctypes.data
        self._scratch = [aligned(1, scratch_bytes) for _ in range(count)]
        # Queues, as `put` and `get` are one step each: an interrupt within `Condition.wait` breaks its lock.
        self._calls: list[SimpleQueue[bool]] = [SimpleQueue() for _ in range(count)]
        self._servers: list[threading.Thread] = []
        try:
            for me in range(1, count):
                thread = threading.Thread(target=self._serve, args=(me,), name=f"edgellm-{me}", daemon=True)
                thread.start()
                self._servers.append(thread)
        except RuntimeError:
            self.close()
            raise EdgeLLMError(f"this system lets us start {self.count} threads, not {count}; choose fewer") from None

    @property
    def count(self) -> int:
        """How many threads there are."""
        return len(self._servers) + 1

    def stop(self) -> None:
        """Stop the running program at its next chunk of work, and any started before `clear`."""
        self._words[STOP // 8] = 1

    def clear(self) -> None:
        """Forget an earlier `stop`."""
        self._words[STOP // 8] = 0

    def run(self, program: int, ops: int, batch: int) -> bool:
        """Run a program, by its address; False if it was stopped before its end.

        An exception in the calling thread, such as KeyboardInterrupt, stops the program; it is raised as soon
        as no thread works any more, or, if more interrupts follow, before: what the program uses must live until
        `settle` has returned.
        """
        self.settle()
        try:
            self._post(self._control, program, ops, batch)
            self._take_part()
        except BaseException:
            self.settle()
            raise
        return not self._words[STOPPED // 8]

    def close(self) -> None:
        """Let the threads end. Nothing may be running."""
        self.settle()
        for me, thread in enumerate(self._servers, 1):
            self._calls[me].put(False)
            thread.join()

    def settle(self) -> None:
        """Stop a job that was interrupted, and wait for its end, through any number of further interrupts."""
        while not self._is_done():
            with suppress(BaseException):
                self.stop()
                self._take_part()
            self.clear()

    def _is_done(self) -> bool:
        # As all threads meet at the end, none of them works when the caller is done.
        return bool(self._words[(LINES + DONE) // 8] == self._words[JOB // 8])

    def _take_part(self) -> None:
        """Work on the job that was posted, with those who sleep woken, to its end."""
        for me in np.flatnonzero(self._sleeps):
            self._calls[me].put(True)
        while not self._is_done():
            self._work(0)

    def _serve(self, me: int) -> None:
        while self._calls[me].get():
            self._work(me)

    def _work(self, me: int) -> None:
        self._run(self._control, self._scratch[me].ctypes.data, me)
