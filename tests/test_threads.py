"""The thread pool: the same results with any number of threads, a stop at any time, and a pool that survives it."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernels import addresses, batch_record, guarded, op_record

from edgellm.engine import threads as module
from edgellm.engine.threads import ThreadPool
from kquants.layout import SHARE_BYTES, THREAD, THREADS

F32 = np.float32
WIDTH = 64
OPS = 300
FOREVER = 1 << 40
"""More units than any machine gets done; a product of 16 rows does nothing in all but the first."""


class Chain:
    """A program of `ops` products, each of which needs all of what the one before it wrote.

    Their matrices permute and negate, so that the result is exact. It goes to and fro between two buffers, and one
    that went ahead of another thread would read, or overwrite, a half-written row. The last one written is `y`.
    """

    def __init__(self, ops: int = OPS, rows: int = 1, units: int = WIDTH // 16, endless: int | None = None) -> None:
        rng = np.random.default_rng(ops)
        self.start = np.arange(1, rows * WIDTH + 1, dtype=F32).reshape(rows, WIDTH)
        self.results = [self.start.astype(np.float64)]
        self.buffers = [self.start.copy(), guarded((rows, WIDTH), F32)]
        self.y = self.buffers[ops % 2]
        self.batch = batch_record(rows)
        self.kept, records = [], []
        for i in range(ops):
            w = (np.eye(WIDTH)[rng.permutation(WIDTH)] * rng.choice([-1, 1], WIDTH)[:, None]).astype(F32)
            self.kept.append(w)
            self.results.append(self.results[-1] @ w.T)
            x, y = self.buffers[i % 2], self.buffers[1 - i % 2]
            arguments = (w, WIDTH, WIDTH, 4 * WIDTH, x, 4 * WIDTH, y, 4 * WIDTH, 0)
            records.append(op_record("matmul_f32", *arguments, units=FOREVER if i == endless else units))
        self.expected = self.results[-1]
        self.ops = np.stack(records)

    def run(self, pool: ThreadPool, threads: int | None = None) -> bool:
        """Run it from its start; whether it was not stopped."""
        self.buffers[0][:] = self.start
        self.buffers[1][:] = np.nan
        return pool.run(self.ops.ctypes.data, len(self.ops), self.batch.ctypes.data, threads)

    def check(self, pool: ThreadPool, threads: int | None = None) -> None:
        """Run it and compare."""
        assert self.run(pool, threads)
        assert np.array_equal(self.y, self.expected)


def new_pool(count: int) -> ThreadPool:
    return ThreadPool(count, addresses(), OPS, 16 * 4 * (WIDTH + 16))


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    pool = new_pool(2)
    yield pool
    pool.close()


@pytest.fixture(params=[1, 2, 3, 8])
def any_pool(request: pytest.FixtureRequest) -> Iterator[ThreadPool]:
    pool = new_pool(request.param)
    assert pool.count == request.param
    yield pool
    pool.close()


@pytest.mark.parametrize("rows", [1, 5])
def test_any_number_of_threads_gives_the_same(any_pool: ThreadPool, rows: int) -> None:
    chain = Chain(rows=rows)
    for _ in range(3):
        chain.check(any_pool)


def test_threads_without_futex_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    # As on other systems than Linux: a thread that waits goes on yielding.
    monkeypatch.setattr(module, "_FUTEX", {})
    pool = new_pool(3)
    Chain().check(pool)
    pool.close()


def test_each_program_has_as_many_of_the_threads_as_it_asks_for() -> None:
    # Each waits until so many are there, so that nobody does the work without the others.
    there: set[tuple[int, int]] = set()
    all_there = threading.Event()

    @ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 5)
    def kernel(spare: int, error: int, op: int, batch: int, first: int, last: int, scratch: int) -> int:
        words = ctypes.cast(scratch, ctypes.POINTER(ctypes.c_int64))
        there.add((words[THREAD // 8], words[THREADS // 8]))
        if len(there) == asked:
            all_there.set()
        all_there.wait(60)
        return 0

    op = np.array([ctypes.cast(kernel, ctypes.c_void_p).value, 64] + [0] * 14, np.int64)
    pool, batch = ThreadPool(4, addresses(), 1, SHARE_BYTES), batch_record(1)
    for asked in (4, 1, 2, 2, 4, 3, 1, 1, 4):
        there.clear()
        all_there.clear()
        assert pool.run(op.ctypes.data, 1, batch.ctypes.data, asked)
        assert there == {(me, asked) for me in range(asked)}
    pool.close()


def test_programs_for_some_of_the_threads_follow_each_other_at_any_pace(any_pool: ThreadPool) -> None:
    # A server that a program is not for may be anywhere when the next one begins: working on the last, looking out
    # for another, going to sleep or waking up.
    rng, chain = np.random.default_rng(any_pool.count), Chain(ops=6)
    for _ in range(3000):
        if rng.random() < 0.3:
            end = time.perf_counter() + rng.uniform(0, 1e-3)
            while time.perf_counter() < end:
                pass
        chain.check(any_pool, int(rng.integers(1, any_pool.count + 1)))


def test_a_number_of_threads_that_there_are_not_is_refused(any_pool: ThreadPool) -> None:
    chain = Chain(ops=2)
    for threads in (0, -1, any_pool.count + 1):
        with pytest.raises(ValueError, match=f"there are {any_pool.count} threads, not {threads}"):
            chain.run(any_pool, threads)
    chain.check(any_pool)


def test_who_learns_late_of_a_stop_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # The second thread is kept in a meeting, which stops the first program, until the next one is over that is not
    # for it.
    caller = threading.get_ident()
    both, (stopping, kept, released) = threading.Barrier(2), (threading.Event() for _ in range(3))

    @ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)
    def give_way(*_: int) -> int:
        if threading.get_ident() != caller and stopping.is_set():
            kept.set()
            released.wait(60)
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 5)
    def kernel(spare: int, error: int, op: int, batch: int, first: int, last: int, scratch: int) -> int:
        name = ctypes.cast(op, ctypes.POINTER(ctypes.c_int64))[6]
        done.append(name)
        if name == 1:
            both.wait(60)
        if name == 1 and threading.get_ident() == caller:
            stopping.set()
            kept.wait(60)
            pool.stop()
        return 0

    def op(name: int) -> list[int]:
        return [ctypes.cast(kernel, ctypes.c_void_p).value or 0, 2, 0, 0, 1, 0, name] + [0] * 9

    monkeypatch.setattr(module, "_waiting", lambda: (ctypes.cast(give_way, ctypes.c_void_p).value, 0, 0))
    done: list[int] = []
    pool, batch = ThreadPool(2, addresses(), 2, SHARE_BYTES), batch_record(1)
    stopped, whole = (np.array([op(n), op(n + 1)], np.int64) for n in (1, 3))
    assert not pool.run(stopped.ctypes.data, 2, batch.ctypes.data)
    pool.clear()
    assert pool.run(whole.ctypes.data, 2, batch.ctypes.data, 1)
    released.set()
    pool.close()
    assert done == [1, 1, 3, 4], "the first thread takes both units at once where it is alone"


def test_who_is_not_asked_sleeps(any_pool: ThreadPool) -> None:
    chain = Chain(ops=2)
    chain.check(any_pool)
    end, before, begin = time.perf_counter() + 0.5, time.process_time(), time.thread_time()
    while time.perf_counter() < end:
        assert chain.run(any_pool, 1)
    others = time.process_time() - before - (time.thread_time() - begin)
    assert others < 0.1, "a server that looks out for a program would take all of the half second"


def test_ops_that_need_not_meet() -> None:
    # y0 = W0 x, y1 = W1 x, y2 = W2 x without waiting, then z = W3 y2.
    rng = np.random.default_rng(0)
    w = rng.integers(-3, 4, (4, 512, 512)).astype(F32)
    x, y, z = rng.integers(-3, 4, 512).astype(F32), guarded((3, 512), F32), guarded((512,), F32)
    shape = (512, 512, 2048)
    ops = [op_record("matmul_f32", w[i], *shape, x, 2048, y[i], 2048, 0, units=32, meet=i == 0) for i in range(3)]
    ops.append(op_record("matmul_f32", w[3], *shape, y[2], 2048, z, 2048, 0, units=32))
    program, batch = np.stack(ops), batch_record(1)
    pool = ThreadPool(3, addresses(), 4, 16 * 4 * 528)
    for _ in range(50):
        y[:], z[:] = np.nan, np.nan
        assert pool.run(program.ctypes.data, 4, batch.ctypes.data)
        assert np.array_equal(y, w[:3] @ x)
        assert np.array_equal(z, w[3] @ (w[2] @ x))
    pool.close()


def test_every_unit_is_done_once(pool: ThreadPool) -> None:
    # Accumulating, a unit that is done twice shows as much as one that is left out.
    for tiles in (1, 2, 15, 16, 17, 100, 1001):
        w, x, y = np.ones((16 * tiles, 1), F32), np.ones((1, 16), F32), np.zeros((1, 16 * tiles), F32)
        op = op_record("matmul_f32", w, 16 * tiles, 1, 4, x, 64, y, y[0].nbytes, 1, units=tiles)
        batch = batch_record(1)
        for _ in range(20):
            assert pool.run(op.ctypes.data, 1, batch.ctypes.data)
        assert (y == 20).all(), f"{tiles} tiles"


def when_there(chain: Chain, op: int, then: Callable[[], object]) -> threading.Thread:
    """A thread that waits until the chain has written what `op` makes, and does something."""

    def wait() -> None:
        while not np.array_equal(chain.buffers[1 - op % 2], chain.results[op + 1]):
            time.sleep(0.001)
        then()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_stop_ends_a_long_program(any_pool: ThreadPool) -> None:
    for endless in (0, 7, OPS - 1):
        chain = Chain(endless=endless)
        stopper = when_there(chain, endless, any_pool.stop)
        assert not chain.run(any_pool)
        stopper.join()
        # What the op before it wrote is still there: none of those after it was run.
        assert np.array_equal(chain.buffers[endless % 2], chain.results[endless])
        any_pool.clear()
        Chain().check(any_pool)


def test_a_stop_from_before_holds_until_it_is_cleared(any_pool: ThreadPool) -> None:
    chain = Chain(endless=0)
    any_pool.stop()
    for _ in range(2):
        assert not chain.run(any_pool)
        assert np.isnan(chain.buffers[1]).all(), "computed though it was stopped"
    any_pool.clear()
    Chain().check(any_pool)


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_ctrl_c_is_raised_at_once_and_the_pool_goes_on(any_pool: ThreadPool) -> None:
    for _ in range(3):
        chain = Chain(endless=3)
        interrupter = when_there(chain, 3, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            chain.run(any_pool)
        interrupter.join()
        assert np.array_equal(chain.buffers[1], chain.results[3])
        Chain().check(any_pool)


def test_ten_thousand_short_programs(pool: ThreadPool) -> None:
    chain = Chain(ops=2)
    for _ in range(10_000):
        assert chain.run(pool)
    assert np.array_equal(chain.y, chain.expected)


def test_a_program_after_any_pause(any_pool: ThreadPool) -> None:
    # Those who serve look out for the next program for about half a millisecond, and then go to sleep.
    chain = Chain(ops=2)
    for pause in np.linspace(0, 2e-3, 500):
        end = time.perf_counter() + pause
        while time.perf_counter() < end:
            pass
        chain.check(any_pool)


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_ctrl_c_does_not_wait_for_the_end_of_an_op(any_pool: ThreadPool) -> None:
    # Every row of W is the same memory, and an op takes seconds.
    units, columns = 400_000, 8192
    w, x, y = np.ones(columns, F32), np.ones(columns, F32), np.full(16 * units, np.nan, F32)
    op = op_record("matmul_f32", w, 16 * units, columns, 0, x, x.nbytes, y, y.nbytes, 0, units=units)
    batch = batch_record(1)
    interrupter = threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGINT))
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        any_pool.run(op.ctypes.data, 1, batch.ctypes.data)
    interrupter.join()
    done = y[~np.isnan(y)]
    assert len(done) < len(y) / 2
    assert (done == columns).all()


@pytest.mark.parametrize("count", [1, 2, 8])
def test_a_caller_that_comes_back_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(module, "LONGEST_MS", 1)
    pool, chain, calls = new_pool(count), Chain(ops=9, units=1 << 20), 0
    take_part = pool._take_part

    def counted(*arguments: int) -> int:
        nonlocal calls
        calls += 1
        return take_part(*arguments)

    monkeypatch.setattr(pool, "_take_part", counted)
    for runs in range(1, 21):  # beside other programs the caller may sleep while the others do all
        chain.check(pool)
        if calls > runs:
            break
    pool.close()
    assert calls > runs


def test_nothing_runs_between_programs(any_pool: ThreadPool) -> None:
    Chain().check(any_pool)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.1, "a thread that spins would take all of the half second"


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("edgellm-")]


def test_close_ends_the_threads() -> None:
    before = set(own_threads())
    pools = [new_pool(3) for _ in range(4)]
    assert len(set(own_threads()) - before) == 8
    Chain().check(pools[0])
    for pool in pools:
        pool.close()
    assert set(own_threads()) == before


def test_pools_do_not_disturb_each_other() -> None:
    pools, chains, wrong = [new_pool(2) for _ in range(3)], [Chain() for _ in range(3)], []

    def work(pool: ThreadPool, chain: Chain) -> None:
        for _ in range(20):
            if not chain.run(pool) or not np.array_equal(chain.y, chain.expected):
                wrong.append(chain)

    workers = [threading.Thread(target=work, args=pair) for pair in zip(pools, chains, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for pool in pools:
        pool.close()
    assert not wrong


def interrupted_runs(count: int, seed: int) -> None:
    """Runs with a SIGALRM at a random moment of each, twice in quick succession for some; prints how many hit."""
    rng, hits = np.random.default_rng(seed), 0
    chain, pool = Chain(ops=20), new_pool(2)
    taken = []
    for _ in range(100):
        begin = time.perf_counter()
        chain.run(pool)
        taken.append(time.perf_counter() - begin)
    longest = 2 * min(taken)  # most take far longer where other programs need the cores

    def interrupt(number: int, frame: Any) -> None:
        # Only inside the pool: this function could not catch one that comes while it handles another.
        if frame.f_code is not interrupted_runs.__code__ and rng.random() < 0.3:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 1e-4))
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    for _ in range(count):
        chain.buffers[0][:] = chain.start
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, longest))
                threads = int(rng.integers(1, 3))
                pool.run(chain.ops.ctypes.data, len(chain.ops), chain.batch.ctypes.data, threads)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            hits += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
        pool.clear()
        chain.run(pool)  # ends what a second interrupt at the worst moment left running
        chain.check(pool)
    pool.close()
    print(hits)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_an_interrupt_at_any_moment_leaves_the_pool_whole() -> None:
    # In a child: a pool that breaks would hang, or raise from a thread of its own.
    code = "import sys, test_threads; test_threads.interrupted_runs(int(sys.argv[1]), int(sys.argv[2]))"
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(module.__file__).parents[2])])
    child = subprocess.run(
        [sys.executable, "-c", code, "2000", "1"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (child.returncode, child.stderr) == (0, "")
    assert int(child.stdout) > 200, "too few of the interrupts came in time to tell anything"
