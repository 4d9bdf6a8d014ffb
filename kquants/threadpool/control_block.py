"""Layout of the control block, the memory through which the threads of a pool are controlled. Imports nothing.

The block holds int64 words. Words that different threads write at different times lie in different cache lines of
64 bytes. Constants are byte offsets; each row starts a cache line:

    ARRIVED         threads that have reached the barrier (`kquants.threadpool.barrier`)
    GENERATION      how often the barrier has opened; threads sleep on this word
    STOP            1: stop at the next chunk of work
    STOPPED         1: the last job was stopped, as the last thread at the barrier decided for all
    WAITERS         threads that sleep at the barrier
    JOB             job number · MAX_JOB_THREADS + threads of the job | PROGRAM | BATCH | OPS
    THREAD_COUNT    threads of the pool | YIELD | SYSCALL | FUTEX_NUMBER
    CLOCK           address of the clock function | CLOCK_ID | CLOCK_S | CLOCK_NS
    THREAD_STATES   for each thread a line: DONE_JOB | SLEEPING | RESUME_OP
    counters        for each thread, from a line on, one word per op: units taken of the thread's share

One line for each thread's counters: side by side, those of an op went to and fro between the threads' caches (decode of
13M, measured on Granite Rapids: 1 to 2 % slower; of 1.2B: 0 to 1 %).
"""

_LINE = 64

ARRIVED, GENERATION, STOP, STOPPED, WAITERS, JOB, THREAD_COUNT, CLOCK, THREAD_STATES = range(0, 9 * _LINE, _LINE)

PROGRAM, BATCH, OPS = range(JOB + 8, JOB + 32, 8)
"""Address of the first op's record, address of the batch record, number of ops."""

YIELD, SYSCALL, FUTEX_NUMBER = range(THREAD_COUNT + 8, THREAD_COUNT + 32, 8)
"""Addresses of `sched_yield` and of `syscall`, number of the futex system call; 0 and 0 without futex."""

CLOCK_ID, CLOCK_S, CLOCK_NS = range(CLOCK + 8, CLOCK + 32, 8)
"""Clock for `clock_gettime`, and the seconds and nanoseconds that it writes. A negative id: the clock function takes no
arguments and returns milliseconds."""

MAX_JOB_THREADS = 1 << 16
"""The job word is the job's number times this plus its number of threads."""

DONE_JOB, SLEEPING, RESUME_OP = range(0, 3 * 8, 8)
"""In a thread's line: the job word of the last job that it finished; 1 while it sleeps (never thread 0); for thread 0
the op at which it resumes."""

THREAD_STATE_BYTES = _LINE


def counters_bytes(ops: int) -> int:
    """Bytes of a thread's counters for `ops` ops: whole cache lines."""
    return (8 * ops + _LINE - 1) // _LINE * _LINE


def control_bytes(threads: int, ops: int) -> int:
    """Bytes of the control block for programs of up to `ops` ops."""
    return THREAD_STATES + threads * (THREAD_STATE_BYTES + counters_bytes(ops))
