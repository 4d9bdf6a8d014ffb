"""The thread pool, which runs programs; its threads sleep between runs, and stop when the stop word is set.

The calling thread is one of them, and begins at once. The main thread, in which Python handles signals, returns to
Python from time to time: Ctrl-C sets the stop word, and is raised after the last barrier.

Engines that compute in turn, as a model and its draft model do, share a pool: idle threads of a second pool would poll
for jobs on the cores that the first one needs.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.c_functions import clock_function, kernel_function, yield_and_futex
from edgellm.engine.memory import AddressedArray, aligned
from edgellm.errors import EdgeLLMError
from edgellm.system.fork import ForkGuard
from kquants.threadpool.control_block import (
    CLOCK,
    CLOCK_ID,
    DONE_JOB,
    FUTEX_NUMBER,
    JOB,
    MAX_JOB_THREADS,
    SLEEPING,
    STOP,
    STOPPED,
    THREAD_COUNT,
    THREAD_STATE_BYTES,
    THREAD_STATES,
    control_bytes,
)

POOL_KERNELS = ("submit_job", "run_caller", "run_worker")
"""The kernels of the pool itself: see `kquants.threadpool.jobs`."""

MAX_CALL_MS = 30
"""Milliseconds after which the caller returns to Python, if Python handles signals in its thread."""


class _PoolMemory(NamedTuple):
    """A control block for programs of up to `ops` ops, and `scratch_bytes` of scratch for each thread."""

    ops: int
    scratch_bytes: int
    block: NDArray[np.int64]
    scratch: list[AddressedArray]

    @classmethod
    def of(cls, threads: int, ops: int, scratch_bytes: int) -> Self:
        """Memory for `threads` threads, which sleep but for the caller. Raises MemoryError."""
        words: NDArray[np.int64] = aligned(1, control_bytes(threads, ops)).view(np.int64)[0]
        words[THREAD_COUNT // 8 : FUTEX_NUMBER // 8 + 1] = threads, *yield_and_futex()
        words[CLOCK // 8 : CLOCK_ID // 8 + 1] = clock_function()
        for me in range(1, threads):
            words[(THREAD_STATES + SLEEPING + me * THREAD_STATE_BYTES) // 8] = 1
        return cls(ops, scratch_bytes, words, [AddressedArray.of(aligned(1, scratch_bytes)) for _ in range(threads)])


class ThreadPool:
    """`count` threads, the caller one of them, for programs of up to `ops` ops; `reserve` makes room for larger ones.

    Each thread has `scratch_bytes` of memory, at least SHARE_BYTES (see `kquants.threadpool.interpreter`). `kernels`
    has the addresses of POOL_KERNELS. Programs run one after the other. Raises EdgeLLMError if the system does not
    start as many threads, and MemoryError.
    """

    def __init__(self, count: int, kernels: Mapping[str, int], ops: int, scratch_bytes: int) -> None:
        self._fork_guard = ForkGuard()
        self._submit_job = kernel_function(kernels["submit_job"], 5)
        self._run_caller = kernel_function(kernels["run_caller"], 3)
        self._run_worker = kernel_function(kernels["run_worker"], 3)
        self._reserving, self._stopping, self._closed = threading.Lock(), False, False
        self._reserved = _PoolMemory.of(count, ops, scratch_bytes)
        self._blocks: list[NDArray[np.int64]] = []
        self._use(self._reserved)
        # Queues, as an interrupt cannot break `put` and `get`; within `Condition.wait` it breaks the lock.
        self._wake_queues: list[SimpleQueue[bool]] = [SimpleQueue() for _ in range(count)]
        self._workers: list[threading.Thread] = []
        try:
            for me in range(1, count):
                thread = threading.Thread(target=self._serve_jobs, args=(me,), name=f"edgellm-{me}", daemon=True)
                thread.start()
                self._workers.append(thread)
        except RuntimeError:
            self.close()
            raise EdgeLLMError(f"this system lets us start {self.count} threads, not {count}; choose fewer") from None

    @property
    def count(self) -> int:
        """The number of threads."""
        return len(self._workers) + 1

    def has_room(self, ops: int, scratch_bytes: int) -> bool:
        """Whether `reserve` would take no memory."""
        return ops <= self._reserved.ops and scratch_bytes <= self._reserved.scratch_bytes

    def reserve(self, ops: int, scratch_bytes: int) -> None:
        """Have room for programs of up to `ops` ops that need `scratch_bytes` for each thread. Raises MemoryError.

        Any thread may call this, also while a program runs: the next `run` uses the new memory.
        """
        with self._reserving:
            held = self._reserved
            if not self.has_room(ops, scratch_bytes):
                largest = max(ops, held.ops), max(scratch_bytes, held.scratch_bytes)
                self._reserved = _PoolMemory.of(self.count, *largest)

    def _use(self, memory: _PoolMemory) -> None:
        """Have the next job run with other memory. A worker may poll the old block for a while: it is kept."""
        self._blocks.append(memory.block)
        self._scratch = memory.scratch
        words: memoryview[int] = memory.block.data  # faster than an array for single words
        self._sleeping = words[(THREAD_STATES + SLEEPING) // 8 :: THREAD_STATE_BYTES // 8][: len(memory.scratch)]
        self._words, self._control = words, memory.block.ctypes.data
        if self._stopping:  # `stop` sets this before it looks for the block
            words[STOP // 8] = 1
        self._memory = memory  # last: after an interrupt, `run` does all of this again

    def stop(self) -> None:
        """Stop the running program at its next chunk of work, and every program that is run before `clear`."""
        self._stopping = True
        self._words[STOP // 8] = 1

    def clear(self) -> None:
        """Forget an earlier `stop`. Not while a program runs, as its threads may have skipped work already."""
        self._stopping = False
        self._words[STOP // 8] = 0

    def run(self, program: int, ops: int, batch: int, threads: int | None = None) -> bool:
        """Run a program, by its address, on `threads` threads, or all; return False if it was stopped before its end.

        Raises ValueError if `threads` is not from 1 to `count`, and EdgeLLMError if the pool was closed.

        An exception in the calling thread, such as KeyboardInterrupt, stops the program, and is raised when no thread
        works any more. Further interrupts may raise it earlier: the memory that the program uses must live until
        `settle` has returned; the other threads wait until then.
        """
        threads = self.count if threads is None else threads
        if not 1 <= threads <= self.count:
            raise ValueError(f"there are {self.count} threads, not {threads}")
        self._fork_guard.check("this pool of threads")
        if self._closed:
            raise EdgeLLMError("the threads were ended; open the model again")
        self.settle()
        if (reserved := self._reserved) is not self._memory:
            self._use(reserved)
        try:
            self._submit_job(self._control, program, ops, batch, threads)
            self._work()
        except BaseException:
            self.settle()
            raise
        return not self._words[STOPPED // 8]

    def close(self) -> None:
        """End the threads. Nothing may be running. In a forked process there are none. Further calls do nothing."""
        if self._closed or not self._fork_guard.in_owner_process():
            return
        # A job for the caller alone ends the waiting of the others. Each of them would yield thousands of times before
        # it sleeps, and a yield may take milliseconds if other programs are busy.
        self.run(0, 0, 0, threads=1)
        for queue in self._wake_queues:
            queue.put(False)
        for thread in self._workers:
            thread.join()
        self._closed = True

    def settle(self) -> None:
        """Stop an interrupted job, and wait for its end, through any number of further interrupts.

        A closed pool has none. In a forked process there is none: the threads are those of the other one.
        """
        while not self._is_done() and self._fork_guard.in_owner_process():
            with suppress(BaseException):
                self.stop()
                self._work()
            self.clear()

    def _is_done(self) -> bool:
        # A job ends with a barrier, so no thread works when the caller is done. Threads that have not left the barrier
        # access the control block only.
        return self._words[(THREAD_STATES + DONE_JOB) // 8] == self._words[JOB // 8]

    def _work(self) -> None:
        """Wake the sleeping threads, and work on the posted job to its end."""
        for me in range(1, self._words[JOB // 8] % MAX_JOB_THREADS):
            if self._sleeping[me]:
                self._wake_queues[me].put(True)
        max_ms = MAX_CALL_MS if threading.current_thread() is threading.main_thread() else 0
        while not self._is_done():
            self._run_caller(self._control, self._scratch[0].address, max_ms)

    def _serve_jobs(self, me: int) -> None:
        while self._wake_queues[me].get():
            self._run_worker(self._control, self._scratch[me].address, me)
