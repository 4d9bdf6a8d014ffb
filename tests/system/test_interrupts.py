"""Ctrl-C that is held back: raised where the work checks for it, and at its end; the second one at once."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from functools import partial
from typing import Any

import pytest

from edgellm.batch.at_once import answer_all
from edgellm.bench.serving.generator import LoadGenerator
from edgellm.bench.serving.target import LoadRequest
from edgellm.generate.at_once import GenerationGroup
from edgellm.mcp.loop_thread import LoopThread
from edgellm.system.interrupts import held_interrupts

ctrl_c = partial(signal.raise_signal, signal.SIGINT)


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_it_is_raised_at_the_check() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), held_interrupts() as check:
        check()
        ctrl_c()
        reached.append("behind Ctrl-C")
        check()
        reached.append("behind the check")
    assert reached == ["behind Ctrl-C"]


def test_it_is_raised_at_the_end_once() -> None:
    with pytest.raises(KeyboardInterrupt), held_interrupts():
        ctrl_c()
    with held_interrupts() as check:
        check()


def test_a_second_one_is_raised_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), held_interrupts():
        ctrl_c()
        ctrl_c()
        pytest.fail("it was held")


def test_an_error_is_not_replaced() -> None:
    with pytest.raises(ValueError, match="own"), held_interrupts():
        ctrl_c()
        raise ValueError("own")


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda number, frame: None])
def test_a_handler_stays(handler: Any) -> None:
    signal.signal(signal.SIGINT, handler)
    with held_interrupts() as check:
        assert signal.getsignal(signal.SIGINT) is handler
        ctrl_c()
        check()
    assert signal.getsignal(signal.SIGINT) is handler
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_other_threads_change_nothing() -> None:
    seen = []

    def work() -> None:
        with held_interrupts() as check:
            check()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def of_a_load() -> None:
    LoadGenerator(Waiting(), 4).run([LoadRequest([1], 4)] * 8, lambda done, total: None)


class Waiting:
    """A target whose requests end when they are cancelled."""

    is_local = True

    def complete(self, request: Any, on_piece: Any, cancellation: Any) -> Any:
        ended = threading.Event()
        with cancellation.calls(ended.set):
            ended.wait()


def of_a_batch() -> None:
    ended = threading.Event()

    class Runner:
        def cancel(self) -> None:
            ended.set()

    for _ in answer_all(range(8), lambda index, generate: ended.wait(), Runner(), 4):  # type: ignore[arg-type,return-value]
        pass


def of_several_prompts() -> None:
    group, ended = GenerationGroup(), threading.Event()

    class Running:
        def cancel(self) -> None:
            ended.set()

    def work() -> None:
        with group.cancelling(Running()):
            ended.wait()

    group.run([work] * 4)


def of_a_call() -> None:
    thread = LoopThread("test")
    try:
        thread.result(asyncio.sleep(3600), 3600, threading.Event())
    finally:
        thread.close()


@pytest.mark.parametrize(
    ("work", "module"),
    [
        (of_a_load, "edgellm.bench.serving.generator"),
        (of_a_batch, "edgellm.batch.at_once"),
        (of_several_prompts, "edgellm.generate.at_once"),
        (of_a_call, "edgellm.mcp.loop_thread"),
    ],
)
def test_no_wait_for_threads_is_broken_off(
    work: Callable[..., Any], module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the midst of a wait, which holds locks: the wait goes on, and the work ends behind it."""
    finished = []

    def waiting(futures: Any, *rest: Any, **more: Any) -> Any:
        if not finished:
            ctrl_c()
        found = wait(futures, 0.01)
        finished.append(len(futures))
        return found

    monkeypatch.setattr(f"{module}.wait", waiting)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(finished) == 1
