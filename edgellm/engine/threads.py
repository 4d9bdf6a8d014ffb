"""Threads of our own: they run a program together, sleep between requests, and stop on a word.

The calling thread only waits, so that Python still handles its signals: Ctrl-C sets the stop word and is raised
when the threads have met.
"""

import ctypes
import platform
import sys
import threading

import numpy as np

from edgellm.errors import EdgeLLMError
from kquants.layout import COUNTERS, STOP, STOPPED

_Run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 9)
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

    Raises EdgeLLMError where so many threads cannot be had.
    """

    def __init__(self, count: int, run: int, ops: int, scratch_bytes: int) -> None:
        self._run = _Run(run)
        self._system = _system_calls()
        self._control = np.zeros(COUNTERS // 8 + ops, np.int64)
        self._scratch = [np.empty(scratch_bytes, np.uint8) for _ in range(count)]
        self._lock = threading.Lock()
        self._start, self._done = threading.Condition(self._lock), threading.Condition(self._lock)
        self._job, self._busy = 0, 0
        self._call: tuple[int, int, int] | None = (0, 0, 0)
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
        as no thread works any more.
        """
        self._control[COUNTERS // 8 :] = 0
        job = self._job + 1
        try:
            with self._lock:
                # `_job` comes last: from then on the threads start, and all else must be in place.
                self._call, self._busy, self._job = (program, ops, batch), self.count, job
                self._start.notify_all()
            self._wait()
        except BaseException:
            self.stop()
            self._wait_whatever_comes(job)
            self.clear()
            raise
        return not self._control[STOPPED // 8]

    def close(self) -> None:
        """Let the threads end. Nothing may be running."""
        with self._lock:
            self._call, self._job = None, self._job + 1
            self._start.notify_all()
        for thread in self._threads:
            thread.join()

    def _wait(self) -> None:
        with self._lock:
            self._done.wait_for(lambda: self._busy == 0)

    def _wait_whatever_comes(self, job: int) -> None:
        """Wait for a job that may or may not have begun, through any number of interrupts."""
        while True:
            try:
                with self._lock:
                    self._start.notify_all()
                if self._job == job:
                    self._wait()
                return
            except BaseException:
                continue

    def _work(self, index: int) -> None:
        scratch, control = self._scratch[index].ctypes.data, self._control.ctypes.data
        spare = ctypes.c_int64()
        job = 0
        while True:
            with self._lock:
                self._start.wait_for(lambda: self._job != job)  # noqa: B023 (called only here)
                job, call = self._job, self._call
            if call is None:
                return
            self._run(ctypes.addressof(spare), None, *call, control, scratch, self.count, *self._system)
            with self._lock:
                self._busy -= 1
                if self._busy == 0:
                    self._done.notify_all()
