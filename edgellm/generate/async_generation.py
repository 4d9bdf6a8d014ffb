"""A generation for `asyncio`: it runs in a thread, one token at a time, as they are asked for."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Self, TypeVar

from edgellm.generate.generation import Generation
from edgellm.generate.results import Completion, Token

T = TypeVar("T")

_POLL_S = 0.01
"""Seconds between two calls of `cancel`, which has no effect before the work has begun."""


async def in_thread(work: Callable[[], T], cancel: Callable[[], None], thread: ThreadPoolExecutor | None = None) -> T:
    """What `work` returns in a thread. When the task is cancelled, `cancel` is called until `work` has ended.

    The task waits for that, however often it is cancelled: it may not leave what it still uses to others.
    """
    done = asyncio.get_running_loop().run_in_executor(thread, work)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        while not done.done():
            cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(_POLL_S)
        done.exception()  # marks the error as seen, so that asyncio does not report it
        raise


class AsyncGeneration:
    """The tokens of a generation: `async for token in …`, or `await ….completion()`.

    It starts with the first token. When the task that waits for a token is cancelled, so is the generation, which ends
    first; after leaving a loop early, call `cancel`. `generation` is the generation itself, None before it started.
    """

    def __init__(self, start: Callable[[], Generation]) -> None:
        self.generation: Generation | None = None
        self._start, self._cancelled = start, False
        self._thread = ThreadPoolExecutor(1, "edgellm-async")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Token:
        token = await in_thread(lambda: next(self._started(), None), self.cancel, self._thread)
        if token is None:
            raise StopAsyncIteration
        return token

    async def completion(self) -> Completion:
        """Generate all remaining tokens; see `Generation.completion`."""
        return await in_thread(lambda: self._started().completion(), self.cancel, self._thread)

    def cancel(self) -> None:
        """End the generation, as `Generation.cancel` does. Any thread may call it."""
        self._cancelled = True
        if self.generation:
            self.generation.cancel()

    def _started(self) -> Generation:
        generation = self.generation = self.generation or self._start()
        if self._cancelled:  # perhaps before `cancel` could see it
            generation.cancel()
        return generation
