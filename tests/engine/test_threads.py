"""The thread pool: the same results with any number of threads, for any programs, and rest between them."""

import ctypes
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.engine import c_functions
from edgellm.engine import threadpool as module
from edgellm.engine.threadpool import ThreadPool
from edgellm.errors import EdgeLLMError
from kquants.layout import SHARE_BYTES, THREAD, THREADS, matmul_scratch
from kquants.records import MatmulOp, OpHeader
from support.kernels import addresses, batch_record, guarded, op_record
from support.thread_chains import F32, OPS, WIDTH, Chain, new_pool


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    pool = new_pool(2)
    yield pool
    pool.close()


@pytest.mark.parametrize("rows", [1, 5])
def test_any_number_of_threads_gives_the_same(any_pool: ThreadPool, rows: int) -> None:
    chain = Chain(rows=rows)
    for _ in range(3):
        chain.check(any_pool)


def test_threads_without_futex_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    # As on other systems than Linux: a thread that waits goes on yielding.
    monkeypatch.setattr(c_functions, "_FUTEX", {})
    pool = new_pool(3)
    Chain().check(pool)
    pool.close()


def test_threads_that_look_out_for_a_program_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside busy programs each yield may take milliseconds: they do not yield thousands of times first."""
    yields: list[int] = []

    @ctypes.CFUNCTYPE(ctypes.c_int)
    def give_way() -> int:
        yields.append(threading.get_ident())
        time.sleep(0.001)
        return 0

    address = ctypes.cast(give_way, ctypes.c_void_p).value
    monkeypatch.setattr(module, "yield_and_futex", lambda: (address, 0, 0))
    pool = new_pool(2)
    Chain().check(pool)
    pool.close()
    assert len(yields) < 1000


def test_each_program_has_as_many_of_the_threads_as_it_asks_for() -> None:
    # Each thread waits for the others, so that none does all the work.
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

    op = np.array([*OpHeader(ctypes.cast(kernel, ctypes.c_void_p).value, 64, 0, 0, 0)] + [0] * 9, np.int64)
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
        if rng.random() < 0.2:
            end = time.perf_counter() + rng.uniform(0, 4e-3)
            while time.perf_counter() < end:
                pass
        chain.check(any_pool, int(rng.integers(1, any_pool.count + 1)))


def test_a_number_of_threads_that_there_are_not_is_refused(any_pool: ThreadPool) -> None:
    chain = Chain(ops=2)
    for threads in (0, -1, any_pool.count + 1):
        with pytest.raises(ValueError, match=f"there are {any_pool.count} threads, not {threads}"):
            chain.run(any_pool, threads)
    chain.check(any_pool)


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
    line = 2048

    def op(i: int, given: NDArray[np.float32], to: NDArray[np.float32], barrier: bool) -> NDArray[np.int64]:
        arguments = MatmulOp(
            w=w[i], rows=512, columns=512, row_bytes=line, x=given, x_bytes=line, y=to, y_bytes=line, accumulate=0
        )
        return op_record("matmul_f32", arguments, units=32, barrier=barrier)

    ops = [op(0, x, y[0], True), op(1, x, y[1], False), op(2, x, y[2], False), op(3, y[2], z, True)]
    program, batch = np.stack(ops), batch_record(1)
    pool = ThreadPool(3, addresses(), 4, matmul_scratch(512, "F32"))
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
        given = MatmulOp(
            w=w, rows=16 * tiles, columns=1, row_bytes=4, x=x, x_bytes=64, y=y, y_bytes=y[0].nbytes, accumulate=1
        )
        op = op_record("matmul_f32", given, units=tiles)
        batch = batch_record(1)
        for _ in range(20):
            assert pool.run(op.ctypes.data, 1, batch.ctypes.data)
        assert (y == 20).all(), f"{tiles} tiles"


def test_ten_thousand_short_programs(pool: ThreadPool) -> None:
    chain = Chain(ops=2)
    for _ in range(10_000):
        assert chain.run(pool)
    assert np.array_equal(chain.y, chain.expected)


def test_a_program_after_any_pause(any_pool: ThreadPool) -> None:
    # Those who serve look out for the next program for about two milliseconds, and then go to sleep.
    chain = Chain(ops=2)
    for pause in np.linspace(0, 5e-3, 400):
        end = time.perf_counter() + pause
        while time.perf_counter() < end:
            pass
        chain.check(any_pool)


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


def test_a_pool_grows_for_larger_programs_even_while_one_runs() -> None:
    small, large = Chain(ops=2), Chain(ops=700)
    pool = ThreadPool(3, addresses(), 2, matmul_scratch(WIDTH, "F32"))
    endless = Chain(ops=2, endless=1)
    running = threading.Thread(target=lambda: endless.run(pool))
    running.start()
    pool.reserve(700, 2 * matmul_scratch(WIDTH, "F32"))
    pool.stop()
    running.join()
    pool.clear()
    for _ in range(20):
        small.check(pool)
        large.check(pool)
    pool.reserve(3, SHARE_BYTES)
    large.check(pool)
    pool.close()


def test_a_stop_is_not_lost_when_a_pool_grows(pool: ThreadPool) -> None:
    chain = Chain()
    pool.stop()
    pool.reserve(2 * OPS, SHARE_BYTES)
    assert not chain.run(pool)
    pool.clear()
    chain.check(pool)


def test_a_closed_pool_runs_nothing() -> None:
    chain, pool = Chain(ops=2), new_pool(2)
    pool.close()
    pool.close()
    with pytest.raises(EdgeLLMError, match="the threads were ended"):
        chain.run(pool)
