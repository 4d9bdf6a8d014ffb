"""The load generator: arrivals that never wait, clients that do, cancelled requests; and prompts."""

import threading
from collections.abc import Callable

import pytest

from edgellm import EdgeLLMError, Tokenizer
from edgellm.bench.serving import generator
from edgellm.bench.serving.generator import LoadGenerator, warm_up
from edgellm.bench.serving.outcome import ReplyCounts, Status
from edgellm.bench.serving.prompts import BLOCK_TOKENS, PromptMaker
from edgellm.bench.serving.target import Cancellation, LoadRequest, NoRoomError, RequestCancelledError
from edgellm.models import resolve

TIMEOUT_S = 60


class FakeTarget:
    """Gives two pieces for each request. Requests wait for `go`, or until they are cancelled."""

    is_local = True

    def __init__(self) -> None:
        self.go = threading.Event()
        self.running, self.most = 0, 0
        self._lock = threading.Lock()
        self.begun = threading.Semaphore(0)

    def complete(self, request: LoadRequest, on_piece: Callable[[], None], cancellation: Cancellation) -> ReplyCounts:
        ended = threading.Event()

        def cancel() -> None:
            ended.set()
            self.go.set()

        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            with cancellation.calls(cancel):
                on_piece()
                self.begun.release()
                assert self.go.wait(TIMEOUT_S)
                if ended.is_set():
                    raise RequestCancelledError("cancelled")
                if error := {1: NoRoomError("full"), 2: EdgeLLMError("broken")}.get(request.tokens):
                    raise error
                on_piece()
                return ReplyCounts(len(request.prompt), 0, request.tokens)
        finally:
            with self._lock:
                self.running -= 1


def requests(n: int, arrival_s: float | None = None) -> list[LoadRequest]:
    return [LoadRequest([1, 2, 3], 5, arrival_s) for _ in range(n)]


def ignore(done: int, total: int) -> None:
    """Show no progress."""


def test_arrivals_do_not_wait_for_replies() -> None:
    target = FakeTarget()
    load = LoadGenerator(target, 50)

    def end_when_all_run() -> None:
        for _ in range(20):
            assert target.begun.acquire(timeout=TIMEOUT_S)
        target.go.set()

    ending = threading.Thread(target=end_when_all_run)
    ending.start()
    load.run(requests(20, 0.001), ignore)
    ending.join()
    assert target.most == 20
    assert [each.status for each in load.outcomes] == [Status.COMPLETED] * 20
    assert {each.arrival_s for each in load.outcomes} == {0.001}
    for each in load.outcomes:
        assert each.arrival_s <= each.sent_s <= each.pieces_s[0] <= each.pieces_s[1] <= each.ended_s
        assert each.reply == ReplyCounts(3, 0, 5)


def test_a_client_waits_for_its_reply() -> None:
    target = FakeTarget()
    target.go.set()
    load = LoadGenerator(target, 3)
    load.run(requests(12), ignore)
    assert target.most <= 3
    assert len(load.outcomes) == 12
    assert all(each.arrival_s == each.sent_s for each in load.outcomes)


def test_a_request_that_waits_for_a_slot_counts_from_its_arrival() -> None:
    target = FakeTarget()
    target.go.set()
    load = LoadGenerator(target, 1)
    load.run(requests(3, 0.0), ignore)
    assert [each.arrival_s for each in load.outcomes] == [0.0] * 3
    ends = [each.ended_s for each in load.outcomes]
    assert all(later.sent_s >= end for later, end in zip(load.outcomes[1:], ends, strict=False))


def test_what_runs_at_the_end_of_the_time_is_cancelled() -> None:
    target = FakeTarget()
    load = LoadGenerator(target, 2)
    load.run(requests(4, 0.0), ignore, drain_s=0.0)
    assert [each.status for each in load.outcomes] == [Status.UNFINISHED] * 4
    assert target.most <= 2
    assert not target.running


def test_ctrl_c_cancels_and_keeps_what_ended() -> None:
    target = FakeTarget()
    load = LoadGenerator(target, 2)

    def interrupt(done: int, total: int) -> None:
        if target.begun.acquire(blocking=False):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load.run(requests(4), interrupt)
    assert {each.status for each in load.outcomes} == {Status.UNFINISHED}
    assert not target.running


def test_a_generator_that_stood_still_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    target = FakeTarget()
    target.go.set()
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr(generator, "perf_counter", lambda: float(next(clock)))  # five seconds between any two looks
    stalled = LoadGenerator(target, 1)
    stalled.run(requests(1), ignore)
    assert stalled.stalled_s >= 5 - generator.TICK_S


def test_refusals_and_failures_are_told_apart() -> None:
    target = FakeTarget()
    target.go.set()
    load = LoadGenerator(target, 1)
    load.run([LoadRequest([1], tokens) for tokens in (1, 2, 3)], ignore)
    assert [(each.status.value, each.error) for each in load.outcomes] == [
        ("refused", "full"),
        ("failed", "broken"),
        ("completed", ""),
    ]
    with pytest.raises(EdgeLLMError, match="broken"):
        warm_up(target, [LoadRequest([1], 2)], 1)


def test_a_fault_of_the_program_is_not_counted_as_a_failed_request() -> None:
    target = FakeTarget()
    target.go.set()
    target.begun = None  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        LoadGenerator(target, 1).run(requests(1), ignore)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.open(resolve("builtin"))


def test_prompts_begin_alike_and_go_on_differently(tokenizer: Tokenizer) -> None:
    maker = PromptMaker(tokenizer, 7, shared_prefix=20)
    first, second, short = maker.prompt(50), maker.prompt(60), maker.prompt(10)
    assert [len(each) for each in (first, second, short)] == [50, 60, 10]
    assert first[:20] == second[:20]
    assert first[20:50] != second[20:50]
    assert short == first[:10]
    again = PromptMaker(tokenizer, 7, shared_prefix=20)
    assert [again.prompt(50), again.prompt(60)] == [first, second]
    assert PromptMaker(tokenizer, 8).prompt(50) != first


def test_prompts_have_no_token_that_ends_a_text(tokenizer: Tokenizer) -> None:
    drawn = set(PromptMaker(tokenizer, 1).prompt(20_000))
    assert not drawn & set(tokenizer.eog_ids)
    assert all(tokenizer.token_bytes(token) for token in drawn)


def test_equal_blocks_of_a_trace_are_equal_tokens(tokenizer: Tokenizer) -> None:
    maker = PromptMaker(tokenizer, 1, shared_prefix=5)
    first, second = maker.prompt(1100, (4, 9)), maker.prompt(1030, (4, 8, 2))
    assert (len(first), len(second)) == (1100, 1030)
    assert first[:BLOCK_TOKENS] == second[:BLOCK_TOKENS]
    assert first[BLOCK_TOKENS : 2 * BLOCK_TOKENS] != second[BLOCK_TOKENS : 2 * BLOCK_TOKENS]
    assert first[2 * BLOCK_TOKENS :] != second[2 * BLOCK_TOKENS :]
