"""Continuous batching: what a batch computes, and that requests in it do not harm each other.

The engine computes nothing: each batch waits until the test lets it go on, or until it is stopped.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from edgellm import EdgeLLMError
from edgellm.engine.protocol import Logits, Segment, Stopped
from edgellm.errors import NoMemoryError
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.session import Session
from support.stateless import Sequence

BAD = 9
"""A token that the engine refuses."""


class Engine:
    """Records the tokens of each batch that it begins, by segment; `go` lets one batch end.

    The logits of a token are its id in all places, so that each request can tell that it got its own.
    """

    ctx, vocab, max_rows, threads = 1000, 10, 40, 1
    devices: list[dict[str, Any]] = []  # noqa: RUF012
    batch_invariant = True

    def __init__(self) -> None:
        self.begun: list[list[list[int]]] = []
        self.callers: list[threading.Thread] = []
        self.go = threading.Semaphore(0)
        self.stopped, self.stops = False, 0
        self.full: set[int] = set()

    def evict(self) -> bool:
        return False

    def new_sequence(self) -> Sequence:
        return Sequence()

    def forward(self, segments: list[Segment[Sequence]]) -> Any:
        self.begun.append([list(segment.tokens) for segment in segments])
        self.callers.append(threading.current_thread())
        while not self.go.acquire(timeout=0.002):
            if self.stopped:
                raise Stopped
        given = [token for segment in segments for token in segment.tokens]
        if BAD in given:
            raise EdgeLLMError("a bad token")
        if self.full & set(given):
            raise NoMemoryError("full")
        for segment in segments:
            segment.sequence.tokens.extend(segment.tokens)
        wanted = [segment.tokens[i] for segment in segments for i in segment.wanted]
        return np.array(wanted, np.float32).reshape(-1, 1).repeat(self.vocab, axis=1)

    def stop(self) -> None:
        self.stops, self.stopped = self.stops + 1, True

    def clear_stop(self) -> None:
        self.stopped = False

    def close(self) -> None:
        """Nothing to free."""


def eventually(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)


class Requests:
    """Requests in threads, of which the first one computes alone; the others have come before its batch ends."""

    def __init__(self, pool: ThreadPoolExecutor, schedule: Any = "srpt") -> None:
        self.engine, self._pool = Engine(), pool
        self.session = Session(self.engine, "m", schedule)
        self.flags: list[CancelFlag] = []
        self.sequences: list[Sequence] = []
        self.futures: list[Future[Any]] = []

    def decode(self, *tokens: int) -> None:
        self._add(lambda sequence, flag: self.session.decode(sequence, tokens, flag))

    def prefill(self, tokens: list[int]) -> None:
        self._add(lambda sequence, flag: self.session.prefill(sequence, tokens, flag))

    def _add(self, work: Callable[[Sequence, CancelFlag], Logits]) -> None:
        waiting = self.session._batcher._waiting
        expected = len(waiting) + 1
        self.flags.append(CancelFlag(self.engine))
        self.sequences.append(Sequence())
        self.futures.append(self._pool.submit(work, self.sequences[-1], self.flags[-1]))
        if len(self.futures) == 1:
            eventually(lambda: len(self.engine.begun) == 1)
        eventually(lambda: len(waiting) == expected)

    def run(self, batches: int) -> list[list[list[int]]]:
        """Let `batches` batches end; returns their tokens."""
        for _ in range(batches):
            eventually(lambda: len(self.engine.begun) > self._ended)
            self._ended += 1
            self.engine.go.release()
        return self.engine.begun[self._ended - batches : self._ended]

    _ended = 0

    def results(self) -> list[Any]:
        """The last logit of each request, or its error."""
        done = [future.exception(30) or future.result() for future in self.futures]
        return [each if isinstance(each, BaseException) else float(np.ravel(each)[-1]) for each in done]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def test_all_that_wait_are_computed_in_one_batch_and_each_gets_its_own_logits(pool: ThreadPoolExecutor) -> None:
    requests = Requests(pool)
    requests.decode(1)
    requests.decode(2, 3)
    requests.prefill([5, 6, 7])
    requests.decode(4)
    assert requests.run(2) == [[[1]], [[2, 3], [4], [5, 6, 7]]]
    assert requests.results() == [1, 3, 7, 4]
    assert [sequence.tokens for sequence in requests.sequences] == [[1], [2, 3], [5, 6, 7], [4]]


def one_done_two_computed(pool: ThreadPoolExecutor) -> Requests:
    """Three requests: the first has its logits, and one batch computes the other two."""
    requests = Requests(pool)
    for token in (1, 2, 3):
        requests.decode(token)
    requests.run(1)
    eventually(lambda: len(requests.engine.begun) == 2)
    return requests


def test_a_cancelled_request_ends_with_the_batch_and_the_others_are_not_stopped(pool: ThreadPoolExecutor) -> None:
    requests = one_done_two_computed(pool)
    requests.flags[1]()
    requests.run(1)
    assert requests.engine.stops == 0
    assert requests.results()[2] == 3
    assert requests.futures[0].result()[0][0] == 1


def test_a_batch_of_cancelled_requests_is_stopped(pool: ThreadPoolExecutor) -> None:
    requests = one_done_two_computed(pool)
    requests.flags[1]()
    requests.flags[2]()
    assert [type(each) for each in requests.results()[1:]] == [Stopped, Stopped]
    assert (requests.engine.stops, [len(each) for each in requests.sequences]) == (1, [1, 0, 0])


def test_a_request_that_is_cancelled_while_it_waits_is_not_computed(pool: ThreadPoolExecutor) -> None:
    requests = Requests(pool)
    for token in (1, 2, 3):
        requests.decode(token)
    requests.flags[1]()
    assert isinstance(requests.futures[1].exception(30), Stopped)
    assert requests.run(2) == [[[1]], [[3]]]
    assert requests.results()[::2] == [1, 3]


@pytest.mark.parametrize("kind", [EdgeLLMError, NoMemoryError])
def test_an_error_is_that_of_one_request(pool: ThreadPoolExecutor, kind: type[Exception]) -> None:
    requests = Requests(pool)
    bad = BAD if kind is EdgeLLMError else 6
    requests.engine.full = {6}
    requests.decode(1)
    requests.decode(2)
    requests.prefill([3, bad])
    requests.decode(4)
    requests.run(2 + 3)
    results = requests.results()
    assert (results[:2], results[3]) == ([1, 2], 4)
    assert type(results[2]) is kind
    assert len(requests.sequences[2]) == 0


def test_close_ends_all_that_wait(pool: ThreadPoolExecutor) -> None:
    requests = Requests(pool)
    for token in (1, 2, 3):
        requests.decode(token)
    requests.session.close()
    assert {str(each) for each in requests.results()} == {"the model m was closed; open it again"}


def test_a_prompt_leaves_room_for_the_steps_of_others_and_comes_to_its_end(pool: ThreadPoolExecutor) -> None:
    requests = Requests(pool)
    requests.decode(1)
    requests.prefill([5] * 50)
    requests.decode(2)
    first, then = requests.run(2)
    assert first == [[1]]
    assert then[0] == [2]
    assert 0 < len(then[1]) < 40, "fewer than the engine could compute"
    requests.engine.go.release(50)
    assert requests.results() == [1, 5, 2]
    assert requests.sequences[1].tokens == [5] * 50


def test_the_time_that_a_batch_may_take_is_that_of_the_session(pool: ThreadPoolExecutor) -> None:
    """With an hour a prompt is computed at once beside a request that decodes, with a nanosecond in small parts."""
    for slo_itl, batches in (3600.0, [30, 1, 30]), (1e-9, [30, 1, 8, 8, 8, 6]):
        engine = Engine()
        session = Session(engine, "m", slo_itl=slo_itl)
        engine.go.release(10)
        session.prefill(Sequence(), [5] * 30, CancelFlag(engine))
        with session.decoding(decodes := CancelFlag(engine)):
            session.decode(Sequence(), [1], decodes)
            session.prefill(Sequence(), [5] * 30, CancelFlag(engine))
        assert [len(batch[0]) for batch in engine.begun] == batches


def test_the_expected_time_to_the_first_token_counts_the_prompts_that_wait(pool: ThreadPoolExecutor) -> None:
    requests = Requests(pool)
    session = requests.session
    assert session.expected_ttft(100) == 0.0
    requests.prefill([5] * 30)
    requests.run(1)
    requests.results()
    alone = session.expected_ttft(100)
    requests.decode(1)
    requests.prefill([5] * 38)
    assert alone > 0
    assert session.expected_ttft(100) == pytest.approx(1.38 * alone, rel=0.01)
    requests.run(2)


def test_a_request_is_queued_until_its_first_batch_begins(pool: ThreadPoolExecutor) -> None:
    requests, begun = Requests(pool), list[int]()
    requests.decode(1)
    prompt = [5] * 60

    def prefill(sequence: Sequence, flag: CancelFlag) -> Logits:
        tell = lambda: begun.append(len(requests.engine.begun))  # noqa: E731
        return requests.session.prefill(sequence, prompt, flag, begun=tell)

    requests._add(prefill)
    assert begun == []
    requests.run(1)
    requests.engine.go.release(20)
    requests.results()
    assert begun == [1], "one batch had begun before, and it is told once"


def test_an_engine_whose_bits_depend_on_the_batch_computes_one_request_at_a_time(pool: ThreadPoolExecutor) -> None:
    requests = Requests(pool)
    requests.engine.batch_invariant = False
    for token in (1, 2, 3):
        requests.decode(token)
    assert requests.run(3) == [[[1]], [[2]], [[3]]]
    assert requests.results() == [1, 2, 3]


def test_progress_of_a_prompt_is_told_in_the_thread_of_its_request() -> None:
    engine, told = Engine(), list[tuple[int, int, int]]()
    session, sequence = Session(engine, "m"), Sequence()
    for _ in range(3):
        engine.go.release()
    me = threading.get_ident()
    session.prefill(
        sequence, [1] * 100, CancelFlag(engine), lambda done, total: told.append((done, total, threading.get_ident()))
    )
    assert told == [(0, 100, me), (40, 100, me), (80, 100, me), (100, 100, me)]


def test_an_error_in_the_progress_of_one_request_harms_no_other(pool: ThreadPoolExecutor) -> None:
    requests = Requests(pool)
    requests.decode(1)

    def fail(done: int, total: int) -> None:
        if done:
            raise ValueError("mine")

    requests._add(lambda sequence, flag: requests.session.prefill(sequence, [5] * 90, flag, fail))
    requests.decode(2)
    requests.run(2)
    assert requests.results()[::2] == [1, 2]
    assert isinstance(requests.futures[1].exception(30), ValueError)
    assert requests.session._batcher._waiting == {}


def test_the_main_thread_which_alone_is_interrupted_computes_for_no_other(pool: ThreadPoolExecutor) -> None:
    """It lets another thread compute the batch of both; without one it computes its own."""
    requests = Requests(pool)
    requests.decode(1)

    def come_behind() -> None:
        eventually(lambda: len(requests.session._batcher._waiting) == 2)
        requests.decode(3)
        requests.engine.go.release(2)

    behind = threading.Thread(target=come_behind)
    behind.start()
    session, engine = requests.session, requests.engine
    assert session.decode(Sequence(), [2], CancelFlag(engine))[0, 0] == 2
    behind.join()
    assert requests.results() == [1, 3]
    assert engine.begun == [[[1]], [[2], [3]]]
    assert threading.main_thread() not in engine.callers
    engine.go.release()
    session.decode(Sequence(), [4], CancelFlag(engine))
    assert engine.callers[-1] is threading.main_thread()


def test_a_step_whose_drafts_found_no_memory_keeps_its_sequence(pool: ThreadPoolExecutor) -> None:
    """It is computed again without drafts. Another request that finds no memory in the same batch preempts it not."""
    requests = Requests(pool)
    requests.engine.full = {6}
    requests.decode(1)
    requests.prefill([6, 7])

    def decode(sequence: Sequence, flag: CancelFlag) -> Logits:
        sequence.tokens += [1, 2, 3]
        return requests.session.decode(sequence, [6, 8], flag)

    requests._add(decode)
    requests.run(2)
    requests.engine.go.release(4)
    assert [type(each) for each in requests.results()[1:]] == [NoMemoryError, NoMemoryError]
    assert requests.sequences[2].tokens == [1, 2, 3]
