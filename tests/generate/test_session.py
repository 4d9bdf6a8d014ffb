"""Requests that share an engine: their order, and that cancelling one does not stop another.

The engine computes nothing: it waits until the test lets it go on, or until it is stopped.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from edgellm import EdgeLLMError
from edgellm.engine.protocol import Segment, Stopped
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.batching.fair_lock import FairLock, WaitCancelled
from edgellm.generate.session import Session
from support.stateless import Sequence


class Engine:
    """Records the tokens of each batch that it begins; `go` lets one batch end."""

    ctx, vocab, max_rows, threads = 100, 10, 2, 1
    devices: list[dict[str, Any]] = []  # noqa: RUF012
    batch_invariant = False

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.go = threading.Semaphore(0)
        self.stops, self.stopped = 0, False
        self.faults: list[BaseException] = []
        self.closed = 0

    def new_sequence(self) -> Sequence:
        return Sequence()

    def forward(self, segments: Any) -> Any:
        (segment,) = segments
        self.begun.append(segment.tokens[0])
        while not self.go.acquire(timeout=0.002):
            if self.stopped:
                raise Stopped
        segment.sequence.tokens.extend(segment.tokens)
        return np.zeros((1, self.vocab), np.float32)

    def stop(self) -> None:
        self.stops, self.stopped = self.stops + 1, True

    def clear_stop(self) -> None:
        self.stopped = False

    def close(self) -> None:
        if self.faults:
            raise self.faults.pop()
        self.closed += 1


def eventually(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def waiting(session: Session) -> int:
    """The number of requests that hold the lock or wait for it."""
    return session._batcher._lock.callers


def test_parts_take_turns(pool: ThreadPoolExecutor) -> None:
    engine = Engine()
    session = Session(engine, "m")
    futures = []
    for i, token in enumerate([1, 2, 3]):
        futures.append(pool.submit(session.prefill, Sequence(), [token] * 6, CancelFlag(engine)))
        eventually(lambda n=i + 1: waiting(session) == n)  # type: ignore[misc]
    for n in range(1, 10):
        # A request asks for the lock again before the next request releases it.
        eventually(lambda n=n: len(engine.begun) == n and waiting(session) == min(3, 10 - n))  # type: ignore[misc]
        engine.go.release()
    for future in futures:
        future.result(30)
    assert engine.begun == [1, 2, 3] * 3


@pytest.mark.parametrize("step", ["prefill", "rewind"])
def test_cancel_of_a_request_that_waits(pool: ThreadPoolExecutor, step: str) -> None:
    engine = Engine()
    session = Session(engine, "m")
    first = pool.submit(session.decode, Sequence(), [1], CancelFlag(engine))
    eventually(lambda: engine.begun == [1])
    cancel = CancelFlag(engine)
    second = pool.submit(getattr(session, step), Sequence(), [2], cancel)
    eventually(lambda: waiting(session) == 2)
    cancel()
    assert isinstance(second.exception(30), Stopped)
    assert not first.done()
    assert engine.stops == 0
    engine.go.release()
    assert first.result(30).shape == (1, 10)
    assert engine.begun == [1]


def test_cancel_of_the_request_that_computes(pool: ThreadPoolExecutor) -> None:
    engine = Engine()
    session = Session(engine, "m")
    cancel = CancelFlag(engine)
    first = pool.submit(session.decode, Sequence(), [1], cancel)
    eventually(lambda: engine.begun == [1])
    second = pool.submit(session.decode, Sequence(), [2], CancelFlag(engine))
    eventually(lambda: waiting(session) == 2)
    cancel()
    assert isinstance(first.exception(30), Stopped)
    engine.go.release()
    assert second.result(30).shape == (1, 10)
    cancel()
    assert (engine.begun, engine.stops) == ([1, 2], 1)


def test_close_stops_running_and_waiting_requests(pool: ThreadPoolExecutor) -> None:
    engine = Engine()
    session = Session(engine, "m")
    futures = [pool.submit(session.decode, Sequence(), [token], CancelFlag(engine)) for token in (1, 2)]
    eventually(lambda: waiting(session) == 2)
    session.close()
    for future in futures:
        with pytest.raises(EdgeLLMError, match="m was closed"):
            future.result(30)
    assert (session.closed, engine.closed, len(engine.begun)) == (True, 1, 1)


def test_an_interrupted_close_can_be_finished() -> None:
    engine = Engine()
    session = Session(engine, "m")
    engine.faults = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        session.close()
    assert not session.closed
    with pytest.raises(EdgeLLMError, match="m was closed"):
        session.forward(Segment(Sequence(), [1], [0]), CancelFlag(engine))
    session.close()
    assert (session.closed, engine.closed) == (True, 1)


@pytest.mark.parametrize("error", [WaitCancelled, KeyboardInterrupt])
def test_a_request_that_leaves_while_waiting_blocks_no_other(
    pool: ThreadPoolExecutor, error: type[BaseException]
) -> None:
    lock, held = FairLock(), threading.Event()

    def go_away() -> bool:
        if error is WaitCancelled:
            return True
        raise error

    first = pool.submit(lock.run, lambda: held.wait(30))
    eventually(lambda: lock.callers == 1)
    with pytest.raises(error):
        lock.run(lambda: pytest.fail("it was not its turn"), go_away)
    assert not first.done()
    held.set()
    assert lock.run(lambda: 5) == 5
    assert first.result(30)
