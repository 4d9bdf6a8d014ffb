"""Jobs: a program is submitted to the pool, its threads run it together, and the workers wait for the next.

Thread 0 is the caller: it submits a job and takes part in it. The other threads are workers. While a reply is decoded,
jobs follow each other within a millisecond or two. A worker polls for the next job that long and starts it at once,
where waking a sleeping thread would take 0.05 to 0.3 ms. Then it sets SLEEPING and returns; Python calls it again with
the next job. After setting SLEEPING it polls once more: so either the worker sees a new job, or the caller sees that it
must wake the worker.

A job is for the first threads of the pool, `threads` of them. A worker beyond these reads nothing of it but the job
word, and goes to sleep: the job may end and another begin without it.

Where Python handles signals in the calling thread, thread 0 returns after some time, finished or not, to be called
again.
"""

from kquants.compiler.decorators import inline, kernel
from kquants.records import OP_WORDS
from kquants.simd import atomic_add, atomic_load, atomic_store, fence, load_i64, store_i64
from kquants.threadpool.barrier import wait_at_barrier, wait_for_change
from kquants.threadpool.clock import clock_ms
from kquants.threadpool.control_block import (
    BATCH,
    DONE_JOB,
    JOB,
    MAX_JOB_THREADS,
    OPS,
    PROGRAM,
    RESUME_OP,
    SLEEPING,
    THREAD_COUNT,
    THREAD_STATE_BYTES,
    THREAD_STATES,
    counters_bytes,
)
from kquants.threadpool.interpreter import header_of, run_op

_POLL_YIELDS = 4000
"""Yields while a worker polls for the next job: 2 ms on an idle core.

After a step that read all weights, Python's code comes from memory anew: with a vocabulary of 128,000 tokens, 0.5 to
0.75 ms pass between two steps. With 0.5 ms of polling, workers slept before nine tokens of ten (a 1.2B file decoded 1.0
to 1.4 % slower, also beside a busy program).
"""


_stride = inline(counters_bytes)
"""Bytes from the counters of a thread to those of the next."""


@kernel("submit_job", arguments=5)
def submit_job(control: int, program: int, ops: int, batch: int, threads: int) -> None:
    """Give the first `threads` of the pool a job: `ops` ops of a program over a batch.

    When this returns, SLEEPING tells of each of them whether it must be woken.
    """
    for me in range(threads):
        counters = _counters(control) + me * _stride(ops)
        for i in range(ops):
            store_i64(counters + 8 * i, 0)
    store_i64(control + PROGRAM, program)
    store_i64(control + OPS, ops)
    store_i64(control + BATCH, batch)
    store_i64(control + THREAD_STATES + RESUME_OP, 0)
    atomic_store(control + JOB, (load_i64(control + JOB) // MAX_JOB_THREADS + 1) * MAX_JOB_THREADS + threads)
    fence()


@kernel("run_caller", arguments=3)
def run_caller(control: int, scratch: int, limit_ms: int) -> None:
    """Run the last job as thread 0 until all its threads have finished it; return at once if thread 0 has already.

    With `limit_ms` not 0, return after the first chunk of work that ends later than that, to be called again.
    """
    _run_job(control, scratch, 0, control + THREAD_STATES, clock_ms(control) + limit_ms if limit_ms else 0)


@kernel("run_worker", arguments=3)
def run_worker(control: int, scratch: int, me: int) -> None:
    """Run the last job as thread `me`, if it is for this thread, then those that follow while it polls."""
    state = control + THREAD_STATES + THREAD_STATE_BYTES * me
    awake = True
    while awake:
        atomic_store(state + SLEEPING, 0)
        while _has_job(control, me, state):
            _run_job(control, scratch, me, state, 0)
            wait_for_change(control, JOB, load_i64(state + DONE_JOB), _POLL_YIELDS)
        atomic_add(state + SLEEPING, 1)
        awake = _has_job(control, me, state)


@inline
def _has_job(control: int, me: int, state: int) -> bool:
    """Whether the last job is for this thread, and the thread has not finished it."""
    job = atomic_load(control + JOB)
    return job != load_i64(state + DONE_JOB) and me < job % MAX_JOB_THREADS


@inline
def _counters(control: int) -> int:
    """Address of the first thread's counters."""
    return control + THREAD_STATES + THREAD_STATE_BYTES * load_i64(control + THREAD_COUNT)


@inline
def _run_job(control: int, scratch: int, me: int, state: int, deadline: int) -> None:
    """Run a job that this thread has, from where the thread left it."""
    if _has_job(control, me, state):
        job = load_i64(control + JOB)  # the same job: it does not end without this thread
        if _run_program(control, scratch, me, state, job % MAX_JOB_THREADS, deadline):
            atomic_store(state + DONE_JOB, job)


@inline
def _run_program(control: int, scratch: int, me: int, state: int, threads: int, deadline: int) -> bool:
    """Run this thread's part of the ops of a program, until all its threads have reached the end or were stopped.

    Returns False if the thread left at the deadline; RESUME_OP then tells where it was.
    """
    program, batch, ops = load_i64(control + PROGRAM), load_i64(control + BATCH), load_i64(control + OPS)
    counters, stride = _counters(control), _stride(ops)
    begun = load_i64(state + RESUME_OP)  # ops that this thread has begun
    for i in range(max(0, begun - 1), ops):
        op = program + i * OP_WORDS * 8
        if i >= begun and header_of(op).barrier != 0 and wait_at_barrier(control):
            return True
        if not run_op(op, batch, control, counters + 8 * i, stride, scratch, me, threads, deadline):
            store_i64(state + RESUME_OP, i + 1)
            return False
    wait_at_barrier(control)
    return True
