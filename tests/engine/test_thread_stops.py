"""Stops and interrupts of the thread pool: at any time, at once, and it is whole afterwards."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from edgellm.engine import threadpool as module
from edgellm.engine.threadpool import ThreadPool
from kquants.layout import SHARE_BYTES
from kquants.records import FIRST_ARGUMENT, OP_WORDS, MatmulOp, OpHeader
from support import with_support
from support.kernels import addresses, batch_record, op_record
from support.thread_chains import F32, OPS, Chain, new_pool


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
        name = ctypes.cast(op, ctypes.POINTER(ctypes.c_int64))[FIRST_ARGUMENT]
        done.append(name)
        if name == 1:
            both.wait(60)
        if name == 1 and threading.get_ident() == caller:
            stopping.set()
            kept.wait(60)
            pool.stop()
        return 0

    def op(name: int) -> list[int]:
        address = ctypes.cast(kernel, ctypes.c_void_p).value or 0
        words = [*OpHeader(address, units=2, units_per_row=0, outputs=0, barrier=1), name]
        return words + [0] * (OP_WORDS - len(words))

    monkeypatch.setattr(module, "yield_and_futex", lambda: (ctypes.cast(give_way, ctypes.c_void_p).value, 0, 0))
    done: list[int] = []
    pool, batch = ThreadPool(2, addresses(), 2, SHARE_BYTES), batch_record(1)
    stopped, whole = (np.array([op(n), op(n + 1)], np.int64) for n in (1, 3))
    assert not pool.run(stopped.ctypes.data, 2, batch.ctypes.data)
    pool.clear()
    assert pool.run(whole.ctypes.data, 2, batch.ctypes.data, 1)
    released.set()
    pool.close()
    assert done == [1, 1, 3, 4], "the first thread takes both units at once where it is alone"


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


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_ctrl_c_does_not_wait_for_the_end_of_an_op(any_pool: ThreadPool) -> None:
    # Every row of W is the same memory, and an op takes seconds.
    units, columns = 400_000, 8192
    w, x, y = np.ones(columns, F32), np.ones(columns, F32), np.full(16 * units, np.nan, F32)
    given = MatmulOp(
        w=w, rows=16 * units, columns=columns, row_bytes=0, x=x, x_bytes=x.nbytes, y=y, y_bytes=y.nbytes, accumulate=0
    )
    op = op_record("matmul_f32", given, units=units)
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
    monkeypatch.setattr(module, "MAX_CALL_MS", 1)
    pool, chain, calls = new_pool(count), Chain(ops=9, units=1 << 16), 0
    run_caller = pool._run_caller

    def counted(*arguments: int) -> int:
        nonlocal calls
        calls += 1
        return run_caller(*arguments)

    monkeypatch.setattr(pool, "_run_caller", counted)
    for runs in range(1, 21):  # beside other programs the caller may sleep while the others do all
        chain.check(pool)
        if calls > runs:
            break
    pool.close()
    assert calls > runs


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_an_interrupt_at_any_moment_leaves_the_pool_whole() -> None:
    # In a child: a pool that breaks would hang, or raise from a thread of its own.
    child = subprocess.run(
        [sys.executable, "-m", "support.interrupted_runs", "2000", "1"],
        env=with_support(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (child.returncode, child.stderr) == (0, "")
    assert int(child.stdout) > 200, "too few of the interrupts came in time to tell anything"
