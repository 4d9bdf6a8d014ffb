"""The models that are open: each is opened when a request needs it, and closed after a time without requests."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

from edgellm.fmt import size
from edgellm.model import Model
from edgellm.server.catalog import ServedModel
from edgellm.server.failures import RETRY_S, RequestError

_UNUSED_S = 1.0
"""Seconds that a model stays open at least for the request that it was opened for."""


@dataclass
class LoadedModel:
    """An open model. `users` are the requests that run with it; `used` is when the last one ended.

    It is closed `keep_alive` seconds after that, never if that is negative.
    """

    served: ServedModel
    model: Model
    needed: int
    keep_alive: float
    users: int = 0
    used: float = 0.0
    timer: asyncio.TimerHandle | None = None


class LoadedModels:
    """Open models by path, within `memory` bytes: the least recently used are closed for others.

    `open_model` opens a file, `needed` predicts the bytes that it takes; both run in threads.
    """

    def __init__(
        self,
        open_model: Callable[[ServedModel], Model],
        needed: Callable[[ServedModel], int],
        memory: int,
        keep_alive: float,
    ) -> None:
        self._open_model, self._needed, self._memory = open_model, needed, memory
        self._keep_alive = keep_alive
        self._open: dict[ServedModel, LoadedModel] = {}
        self._opening = asyncio.Lock()  # one model at a time, so that memory is counted right
        self._closing = set[asyncio.Task[None]]()

    def running(self) -> list[LoadedModel]:
        """The open models."""
        return list(self._open.values())

    @asynccontextmanager
    async def use(self, served: ServedModel, keep_alive: float | None = None) -> AsyncIterator[LoadedModel]:
        """The open model, which stays open meanwhile. `keep_alive` in seconds holds from now on.

        Raises RequestError if memory is short, and the errors of `Model.open`.
        """
        found = await self._get(served)
        while self._open.get(served) is not found:  # it was closed for another one just now
            found = await self._get(served)
        if keep_alive is not None:
            found.keep_alive = keep_alive
        found.users += 1
        if found.timer:
            found.timer.cancel()
        try:
            yield found
        finally:
            found.users -= 1
            found.used = monotonic()
            self._close_later(found)

    async def _get(self, served: ServedModel) -> LoadedModel:
        """Open the model, unless it is. A request that ends meanwhile does not stop the opening."""
        if served in self._open:
            return self._open[served]
        return await asyncio.shield(asyncio.ensure_future(self._opened(served)))

    async def _opened(self, served: ServedModel) -> LoadedModel:
        async with self._opening:
            if served not in self._open:
                needed = await asyncio.to_thread(self._needed, served)
                await self._make_room(needed, served)
                model = await asyncio.to_thread(self._open_model, served)
                self._open[served] = found = LoadedModel(served, model, needed, self._keep_alive, used=monotonic())
                self._close_later(found, _UNUSED_S)
            return self._open[served]

    async def _make_room(self, needed: int, served: ServedModel) -> None:
        """Close models that no request uses until `needed` bytes are free. A model alone is opened in any case.

        If those in use leave too little, none is closed.
        """
        await asyncio.gather(*self._closing, return_exceptions=True)  # these still have their memory
        while self._open and _taken(self.running()) + needed > self._memory:
            in_use = [each for each in self.running() if each.users]
            if in_use and _taken(in_use) + needed > self._memory:
                others = ", ".join(each.served.name for each in in_use)
                message = f"{served.name} needs {size(needed)} of memory, which {others} take now; ask again later"
                raise RequestError(503, message, "model", "no_memory", RETRY_S)
            idle = (each for each in self.running() if not each.users)
            await self._close(min(idle, key=lambda each: each.used))

    def _close_later(self, found: LoadedModel, least_s: float = 0.0) -> None:
        """Close a model when it was not used for its time, at least `least_s` from now."""
        if found.timer:
            found.timer.cancel()
        if found.keep_alive >= 0 and not found.users:
            found.timer = asyncio.get_running_loop().call_later(max(least_s, found.keep_alive), self._close_idle, found)

    def _close_idle(self, found: LoadedModel) -> None:
        if not found.users and self._open.get(found.served) is found:
            task = asyncio.ensure_future(self._close(found))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _close(self, found: LoadedModel) -> None:
        if found.timer:
            found.timer.cancel()
        self._open.pop(found.served, None)
        await asyncio.to_thread(found.model.close)

    async def close(self) -> None:
        """Close all models, also one that is being opened."""
        async with self._opening:
            for found in self.running():
                await self._close(found)
        await asyncio.gather(*self._closing)


def _taken(models: Iterable[LoadedModel]) -> int:
    """Bytes that models take, as they were predicted."""
    return sum(each.needed for each in models)
