"""Threads of our own: they run a program together, sleep between requests, and stop on a word.

The calling thread only waits, so that Python still handles its signals: Ctrl-C sets the stop word and is raised
when the threads have met.
"""

import ctypes
import platform
import sys
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue

import numpy as np

from edgellm.engine.memory import aligned
from edgellm.errors import EdgeLLMError
from kquants.layout import COUNTERS, STOP, STOPPED

_Run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 10)
_Job = tuple[int, int, int, int]  # number, program, ops, batch
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


class ThreadPool:
    """`count` threads that run programs of up to `ops` ops, each with `scratch_bytes` of its own memory.

    Those are SHARE_BYTES at least; see `kquants.interpreter`.

    Raises EdgeLLMError where so many threads cannot be had.
    """

    def __init__(self, count: int, run: int, ops: int, scratch_bytes: int) -> None:
        self._run = _Run(run)
        self._system = _system_calls()
        self._control = np.zeros(COUNTERS // 8 + ops * count, np.int64)
        self._scratch = [aligned(1, scratch_bytes) for _ in range(count)]
        # Queues, as `put` and `get` are one step each: an interrupt within `Condition.wait` breaks its lock.
        self._job: _Job = (0, 0, 0, 0)
        self._jobs: list[SimpleQueue[_Job | None]] = [SimpleQueue() for _ in range(count)]
        self._finished = [0] * count
        self._done: SimpleQueue[None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        try:
            for i in range(count):
                thread = threading.Thread(target=self._work, args=(i,), name=f"edgellm-{i}", daemon=True)
                thread.start()
                self._threads.append(thread)
        except RuntimeError:
            self.close()
            raise EdgeLLMError(f"this system lets us start {self.count} threads, not {count}; choose fewer") from None

    @property
    def count(self) -> int:
        """How many threads there are."""
        return len(self._threads)

    def stop(self) -> None:
        """Stop the running program at its next chunk of work, and any started before `clear`."""
        self._control[STOP // 8] = 1

    def clear(self) -> None:
        """Forget an earlier `stop`."""
        self._control[STOP // 8] = 0

    def run(self, program: int, ops: int, batch: int) -> bool:
        """Run a program, by its address; False if it was stopped before its end.

        An exception in the calling thread, such as KeyboardInterrupt, stops the program; it is raised as soon
        as no thread works any more, or, if more interrupts follow, before: what the program uses must live until
        `settle` has returned.
        """
        self.settle()
        self._control[COUNTERS // 8 :] = 0
        self._job = (self._job[0] + 1, program, ops, batch)
        try:
            self._start()
            self._wait()
        except BaseException:
            self.settle()
            raise
        return not self._control[STOPPED // 8]

    def close(self) -> None:
        """Let the threads end. Nothing may be running."""
        self.settle()
        for jobs in self._jobs:
            jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _start(self) -> None:
        for jobs in self._jobs:
            jobs.put(self._job)

    def _is_done(self) -> bool:
        return all(number == self._job[0] for number in self._finished)

    def _wait(self) -> None:
        while not self._is_done():
            # With an end: on Windows no Ctrl-C interrupts a wait, and Python acts on it only in between.
            with suppress(Empty):
                self._done.get(timeout=0.05)

    def settle(self) -> None:
        """Stop a job that was interrupted, and wait for its end, through any number of further interrupts."""
        while not self._is_done():
            with suppress(BaseException):
                self.stop()
                self._start()  # for those threads that it has not reached; the others know its number
                self._wait()
            self.clear()

    def _work(self, index: int) -> None:
        scratch, control = self._scratch[index].ctypes.data, self._control.ctypes.data
        spare = ctypes.c_int64()
        while (job := self._jobs[index].get()) is not None:
            number, program, ops, batch = job
            if number == self._finished[index]:
                continue
            call = (program, ops, batch, control, scratch, index, self.count, *self._system)
            self._run(ctypes.addressof(spare), None, *call)
            self._finished[index] = number
            if self._is_done():
                self._done.put(None)
