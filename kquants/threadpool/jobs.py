"""Jobs: how a team of threads is given a program, runs it together, and waits for the next.

Thread 0 is whoever posts a job and takes part in it; the others serve. While a reply is written, jobs follow each other
within a millisecond or two: a server looks out for the next one for as long, and begins with it at once, where to wake
a sleeping thread would take 0.05 to 0.3 ms. Then it says that it sleeps and returns, to be called again with the
next job. As it looks once more after that, a job is either seen, or its poster sees that it must wake somebody.

A job is for the first so many threads of the team. A server that it is not for reads no more of it than that, and goes
to sleep: the job may end and another begin without it.

Where its caller has signals to handle, thread 0 returns after a while, work done or not, to be called again.

The control block holds int64 words, on cache lines of their own where threads write them at different times:

    arrivals, generation, stop, stopped, waiters    see `kquants.threadpool.barrier`
    job         its number and how many threads it is for, in one word; then the addresses of program and batch, and how
                many ops there are
    team        how many threads there are; then what they wait with: the addresses of sched_yield and of syscall (or
                0), and the number of the futex system call
    clock       the address of clock_gettime, and which clock; then seconds and nanoseconds, which it writes. Below 0,
                that is a function that returns milliseconds
    lines       a line of each thread: the last job that it is done with; whether it sleeps (thread 0 never does); and
                for thread 0 the op where it goes on
    counters    of each thread, from a cache line on, one per op: how many units of the thread's share are taken. (Where
                those of an op lay side by side, one line went to and fro between the threads' caches: decode of 13M
                took 1 to 2 % more on a Granite Rapids, of 1.2B 0 to 1 %)
"""

from kquants.compiler.decorators import inline, kernel
from kquants.layout import (
    BATCH,
    DONE,
    JOB,
    JOB_NUMBER,
    LINE_BYTES,
    LINES,
    OPS,
    PLACE,
    PROGRAM,
    SLEEPS,
    TEAM,
    counters_bytes,
)
from kquants.records import OP_WORDS
from kquants.simd import atomic_add, atomic_load, atomic_store, fence, load_i64, store_i64
from kquants.threadpool.barrier import changes, meet, milliseconds
from kquants.threadpool.interpreter import head_of, work_on

_PATIENCE = 4000
"""Yields in which a server looks out for the next job: 2 ms on an idle core.

After a step that read all weights Python's code comes from memory anew: between two steps of a model with a vocabulary
of 128,000 it takes 0.5 to 0.75 ms. With 0.5 ms of patience the servers had to be woken for nine tokens of ten, which
cost a 1.2B file 1.0 to 1.4 % of its speed, beside a busy program, too."""


_apart = inline(counters_bytes)
"""Bytes from the counters of a thread to those of the next."""


@kernel("post", arguments=5)
def post(control: int, program: int, ops: int, batch: int, threads: int) -> None:
    """Give the first `threads` of the team a job: `ops` ops of a program over a batch.

    Afterwards the control block tells truly who of them must be woken.
    """
    for me in range(threads):
        counters = _counters(control) + me * _apart(ops)
        for i in range(ops):
            store_i64(counters + 8 * i, 0)
    store_i64(control + PROGRAM, program)
    store_i64(control + OPS, ops)
    store_i64(control + BATCH, batch)
    store_i64(control + LINES + PLACE, 0)
    atomic_store(control + JOB, (load_i64(control + JOB) // JOB_NUMBER + 1) * JOB_NUMBER + threads)
    fence()


@kernel("take_part", arguments=3)
def take_part(control: int, scratch: int, longest: int) -> None:
    """Work on the last job as thread 0, with its own memory, until all are done with it; nothing if that is so.

    After `longest` milliseconds, if not 0, it returns after the next chunk of work, to be called again.
    """
    _work(control, scratch, 0, control + LINES, milliseconds(control) + longest if longest else 0)


@kernel("serve", arguments=3)
def serve(control: int, scratch: int, me: int) -> None:
    """Work as thread `me` on the last job, if it is asked for that, and on those that follow within a moment."""
    line = control + LINES + LINE_BYTES * me
    awake = True
    while awake:
        atomic_store(line + SLEEPS, 0)
        while _is_asked(control, me, line):
            _work(control, scratch, me, line, 0)
            changes(control, JOB, load_i64(line + DONE), _PATIENCE)
        atomic_add(line + SLEEPS, 1)
        awake = _is_asked(control, me, line)


@inline
def _is_asked(control: int, me: int, line: int) -> bool:
    """Whether the last job is for this thread, too, and not done with by it."""
    job = atomic_load(control + JOB)
    return job != load_i64(line + DONE) and me < job % JOB_NUMBER


@inline
def _counters(control: int) -> int:
    """Where the counters of the first thread lie."""
    return control + LINES + LINE_BYTES * load_i64(control + TEAM)


@inline
def _work(control: int, scratch: int, me: int, line: int, until: int) -> None:
    """Work on a job that this thread is asked for, from where it left it on."""
    if _is_asked(control, me, line):
        job = load_i64(control + JOB)  # the same still, as it does not end without this thread
        if _walk(control, scratch, me, line, job % JOB_NUMBER, until):
            atomic_store(line + DONE, job)


@inline
def _walk(control: int, scratch: int, me: int, line: int, threads: int, until: int) -> bool:
    """Do this thread's part of the ops of a program, until all its threads are at its end, or stopped.

    False if it left before, at `until`; its line then tells where it was.
    """
    program, batch, ops = load_i64(control + PROGRAM), load_i64(control + BATCH), load_i64(control + OPS)
    counters, apart = _counters(control), _apart(ops)
    begun = load_i64(line + PLACE)  # ops that this thread has begun with
    for i in range(max(0, begun - 1), ops):
        op = program + i * OP_WORDS * 8
        if i >= begun and head_of(op).meet != 0 and meet(control):
            return True
        if not work_on(op, batch, control, counters + 8 * i, apart, scratch, me, threads, until):
            store_i64(line + PLACE, i + 1)
            return False
    meet(control)
    return True
