"""Jobs: how a team of threads is given a program, runs it together, and waits for the next.

Thread 0 is whoever posts a job and takes part in it; the others serve. While a reply is written, jobs follow each other
within less than a millisecond: a server looks out for the next one for as long, and begins with it at once, where to
wake a sleeping thread would take 0.05 to 0.3 ms. Then it says that it sleeps and returns, to be called again with the
next job. As it looks once more after that, a job is either seen, or its poster sees that it must wake somebody.

Thread 0 returns from time to time before its work is done, so that its caller can handle signals.

The control block holds int64 words, on cache lines of their own where threads write them at different times:

    arrivals, generation, stop, stopped, waiters    see `kquants.waiting`
    job         its number; then the addresses of program and batch, and how many ops there are
    team        how many threads; then what they wait with: the addresses of sched_yield and of syscall (or 0), and
                the number of the futex system call
    lines       a line of each thread: the last job that it is done with; whether it sleeps (thread 0 never does); and
                for thread 0 the op where it goes on
    counters    one per op and thread: how many units of the thread's share are taken
"""

from kquants.decorators import inline, kernel
from kquants.interpreter import work_on
from kquants.layout import BATCH, DONE, JOB, LINE_BYTES, LINES, OP_WORDS, OPS, PLACE, PROGRAM, SLEEPS, TEAM
from kquants.simd import atomic_add, atomic_load, atomic_store, fence, load_i64, store_i64
from kquants.waiting import changes, meet

_PATIENCE = 1000
"""Yields in which a server looks out for the next job: some 0.5 ms, about twice what Python does between two tokens."""

_MOST = 1 << 16
"""Rows · units after which thread 0 returns: some 30 ms of a long prompt, and more than decoding a token takes."""

_ALL = 1 << 62


@kernel("post", arguments=4)
def post(control: int, program: int, ops: int, batch: int) -> None:
    """Give the team a job: `ops` ops of a program over a batch. Afterwards it tells truly who must be woken."""
    threads = load_i64(control + TEAM)
    counters = _counters(control, threads)
    for i in range(ops * threads):
        store_i64(counters + 8 * i, 0)
    store_i64(control + PROGRAM, program)
    store_i64(control + OPS, ops)
    store_i64(control + BATCH, batch)
    store_i64(control + LINES + PLACE, 0)
    atomic_add(control + JOB, 1)
    fence()


@kernel("run", arguments=3)
def run(control: int, scratch: int, me: int) -> None:
    """Work on the job that was posted last, as thread `me` with its own memory, `scratch`; nothing if that is done.

    Thread 0 returns when all are done with it, or sooner, to be called again. Others return when no job follows.
    """
    line = control + LINES + LINE_BYTES * me
    if me == 0:
        _take_part(control, scratch, me, line, _MOST)
        return
    awake = True
    while awake:
        atomic_store(line + SLEEPS, 0)
        while atomic_load(control + JOB) != load_i64(line + DONE):
            _take_part(control, scratch, me, line, _ALL)
            changes(control, JOB, load_i64(line + DONE), _PATIENCE)
        atomic_add(line + SLEEPS, 1)
        awake = atomic_load(control + JOB) != load_i64(line + DONE)


@inline
def _counters(control: int, threads: int) -> int:
    return control + LINES + LINE_BYTES * threads


@inline
def _take_part(control: int, scratch: int, me: int, line: int, most: int) -> None:
    """Work on a job that this thread is not done with, from where it left it on."""
    job, threads = atomic_load(control + JOB), load_i64(control + TEAM)
    if job != load_i64(line + DONE) and _walk(control, scratch, me, threads, line, most):
        atomic_store(line + DONE, job)


@inline
def _walk(control: int, scratch: int, me: int, threads: int, line: int, most: int) -> bool:
    """Do this thread's part of the ops of a program, until all threads are at its end, or stopped.

    False if it did `most` before; the line of thread 0 then tells where it was.
    """
    program, batch, ops = load_i64(control + PROGRAM), load_i64(control + BATCH), load_i64(control + OPS)
    counters = _counters(control, threads)
    begun = load_i64(line + PLACE)  # ops that this thread has begun with
    for i in range(max(0, begun - 1), ops):
        op = program + i * OP_WORDS * 8
        if i >= begun and load_i64(op + 32) != 0 and meet(control):
            return True
        most = work_on(op, batch, control, counters + 8 * i * threads, scratch, me, threads, most)
        if most <= 0:
            store_i64(line + PLACE, i + 1)
            return False
    meet(control)
    return True
