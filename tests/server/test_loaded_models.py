"""Models that are opened when asked for, and closed for others, after a time, and at the end; no file is opened."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from edgellm.server.catalog import ServedModel
from edgellm.server.failures import RequestError
from edgellm.server.loaded_models import LoadedModels

GB = 10**9
A, B, C = (ServedModel(name, Path(name)) for name in "abc")
SIZES = {A: 4 * GB, B: 5 * GB, C: 20 * GB}


class Machine:
    """10 GB of memory; `events` are the models that were opened (+) and closed (-)."""

    def __init__(self, keep_alive: float = -1) -> None:
        self.events: list[str] = []
        self.models = LoadedModels(self.open, SIZES.__getitem__, 10 * GB, keep_alive)

    def open(self, served: ServedModel) -> Any:
        self.events.append(f"+{served.name}")
        events = self.events

        class Opened:
            def close(self) -> None:
                events.append(f"-{served.name}")

        return Opened()

    async def touch(self, served: ServedModel, keep_alive: float | None = None) -> None:
        async with self.models.use(served, keep_alive):
            pass


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


def test_each_is_opened_once_and_closed_at_the_end() -> None:
    async def test() -> None:
        machine = Machine()
        await asyncio.gather(*(machine.touch(each) for each in (A, B, A, B)))
        assert sorted(machine.events) == ["+a", "+b"]
        await machine.models.close()
        assert sorted(machine.events[2:]) == ["-a", "-b"]

    run(test)


def test_the_least_recently_used_makes_room() -> None:
    async def test() -> None:
        machine = Machine()
        for each in (A, B, A):
            await machine.touch(each)
        await machine.touch(C)  # alone it is opened in any case
        assert machine.events == ["+a", "+b", "-b", "-a", "+c"]

    run(test)


def test_a_model_in_use_stays() -> None:
    async def test() -> None:
        machine = Machine()
        async with machine.models.use(A):
            with pytest.raises(RequestError, match=r"c needs 20 GB of memory, which a take") as caught:
                await machine.touch(C)
            assert (caught.value.status, caught.value.retry_after is not None) == (503, True)
        await machine.touch(C)
        assert machine.events == ["+a", "-a", "+c"]

    run(test)


def test_none_is_closed_for_a_model_that_does_not_fit_beside_those_in_use() -> None:
    async def test() -> None:
        machine = Machine()
        await machine.touch(B)
        async with machine.models.use(A):
            with pytest.raises(RequestError, match=r"c needs 20 GB of memory, which a take"):
                await machine.touch(C)
        assert machine.events == ["+b", "+a"]

    run(test)


def test_a_model_is_opened_when_those_before_have_given_back_their_memory() -> None:
    async def test() -> None:
        machine = Machine(keep_alive=0)
        closing, may_close = threading.Event(), threading.Event()

        def close() -> None:
            closing.set()
            may_close.wait(30)
            machine.events.append("-b")

        async with machine.models.use(B) as found:
            found.model.close = close  # type: ignore[method-assign]
        await asyncio.to_thread(closing.wait, 30)
        opened = asyncio.ensure_future(machine.touch(A, keep_alive=-1))
        await asyncio.sleep(0.05)
        may_close.set()
        await opened
        assert machine.events == ["+b", "-b", "+a"]

    run(test)


def test_an_idle_model_is_closed_after_a_time() -> None:
    async def test() -> None:
        machine = Machine(keep_alive=0.01)
        async with machine.models.use(A):
            await asyncio.sleep(0.05)
            assert machine.events == ["+a"]
        while machine.events != ["+a", "-a"]:
            await asyncio.sleep(0.01)
        await machine.touch(A, keep_alive=-1)
        await asyncio.sleep(0.05)
        assert machine.events == ["+a", "-a", "+a"]
        await machine.touch(A, keep_alive=0)
        while machine.models.running():
            await asyncio.sleep(0.01)

    run(test)


def test_a_model_that_is_closed_at_once_is_open_for_its_request() -> None:
    async def test() -> None:
        machine = Machine(keep_alive=0)
        async with machine.models.use(A):
            await asyncio.sleep(0.01)
            assert machine.events == ["+a"]
        while machine.models.running():
            await asyncio.sleep(0.01)

    run(test)


def test_a_request_that_ends_does_not_stop_the_opening() -> None:
    async def test() -> None:
        machine = Machine()
        first = asyncio.ensure_future(machine.touch(A))
        await asyncio.sleep(0)
        first.cancel()
        await machine.touch(A)
        assert machine.events == ["+a"]

    run(test)
