"""The work of all requests: at most so many at once, each in a thread of its own, with models opened as needed."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from time import monotonic

from edgellm.engine.kv_stats import KVStats
from edgellm.errors import UnsupportedModelError
from edgellm.generate.prefix_stats import PrefixStats
from edgellm.gguf import GGUFFile
from edgellm.model import Model
from edgellm.models import resolve
from edgellm.options import LoadOptions
from edgellm.server.catalog import Catalog, ServedModel
from edgellm.server.events import Event
from edgellm.server.generating import Generating
from edgellm.server.kv_shares import KVShares
from edgellm.server.loaded_models import LoadedModels
from edgellm.server.metrics import Gauge, Metrics, model_gauges
from edgellm.server.settings import ServeSettings
from edgellm.server.slots import RequestSlots
from edgellm.server.work import Work
from edgellm.speculation.draft_plan import plan_with_draft
from edgellm.system.machine import available_memory

_PLANNED_TOKENS = 8192
"""Tokens in the KV cache of a model that memory is counted for; `--kv-memory` limits what it takes."""


@dataclass(frozen=True)
class RunningWork:
    """Work that runs: the name of its model, and what comes of it."""

    name: str
    events: AsyncIterator[Event]


class Service:
    """What the routes of a server share. Made and used in one event loop."""

    def __init__(self, settings: ServeSettings) -> None:
        """Raises ModelFileError for a model that is not there."""
        self.settings, self.catalog, self.metrics = settings, Catalog(settings.models), Metrics()
        if (options := LoadOptions.from_kwargs(**settings.load)).names_draft_model:
            self.catalog.hide_path(resolve(options.draft or ""))
        self.slots = RequestSlots(settings.parallel, settings.max_queue, settings.slo_ttft)
        self._kv_shares = KVShares(settings.load.get("kv_memory"), len(settings.models))
        parallel, memory = settings.parallel, available_memory()
        self.models = LoadedModels(self._open, self._needed, memory, settings.keep_alive)
        self._threads = ThreadPoolExecutor(parallel, "edgellm request")

    @asynccontextmanager
    async def run(self, work: Work) -> AsyncIterator[RunningWork]:
        """Run work. At the end of the context it is cancelled. The events raise OptionError and EdgeLLMError.

        Raises RequestError for an unknown model, or if too many requests wait.
        """
        began, served = monotonic(), await self.find(work.model)
        async with self.slots.take(), self.models.use(served, work.keep_alive) as model:
            waited_s = monotonic() - began
            loop, events = asyncio.get_running_loop(), asyncio.Queue[Event | None]()

            def admit(prompt_tokens: int) -> None:
                self.slots.check_ttft(waited_s + model.model.expected_ttft(prompt_tokens))

            may_refuse = self.settings.slo_ttft is not None
            generating = Generating(
                work, model.model, lambda event: _put(loop, events, event), admit if may_refuse else None
            )
            done = loop.run_in_executor(self._threads, generating)
            done.add_done_callback(lambda _: events.put_nowait(None))
            try:
                yield RunningWork(served.name, self._recorded(served.name, events, done, waited_s))
            finally:
                generating.cancel()
                await _ended(done)

    async def _recorded(
        self, name: str, events: "asyncio.Queue[Event | None]", done: "asyncio.Future[None]", waited_s: float
    ) -> AsyncIterator[Event]:
        while (event := await events.get()) is not None:
            self.metrics.record(name, event, waited_s)
            yield event
        await done

    async def find(self, name: str | None) -> ServedModel:
        """The model of a name; without one, the first that the user named. Raises RequestError."""
        return await asyncio.to_thread(self.catalog.find, name)

    async def metrics_text(self) -> str:
        """The figures of the server."""
        gauges = [
            Gauge("requests_running", "Requests that generate.", {"": self.slots.running}),
            Gauge("requests_waiting", "Requests that wait for others.", {"": self.slots.waiting}),
            Gauge("models_open", "Models in memory.", {"": len(self.models.running())}),
        ]
        models = self.models.running()
        figures = await asyncio.to_thread(lambda: {each.served.name: _figures(each.model) for each in models})
        return self.metrics.text([*gauges, *model_gauges(figures)])

    def _open(self, served: ServedModel) -> Model:
        settings, others = self.settings, (each.served for each in self.models.running())
        load = {**settings.load, "kv_memory": self._kv_shares.share(served, others)}
        if settings.slo_itl is not None:
            load["slo_itl"] = settings.slo_itl
        return Model.open(served.path, schedule=settings.schedule, **load)

    def _needed(self, served: ServedModel) -> int:
        with GGUFFile.open(served.path) as file:
            try:
                return plan_with_draft(file, LoadOptions.from_kwargs(**self.settings.load)).needed(_PLANNED_TOKENS)
            except UnsupportedModelError:  # llama.cpp may open it
                return file.nbytes

    async def close(self) -> None:
        """Close all models, which ends all work."""
        await self.models.close()
        self._threads.shutdown(wait=False)


def _figures(model: Model) -> tuple[KVStats, PrefixStats]:
    return model.kv_stats, model.prefix_stats


def _put(loop: asyncio.AbstractEventLoop, events: "asyncio.Queue[Event | None]", event: Event) -> None:
    """Called from the thread of a request."""
    loop.call_soon_threadsafe(events.put_nowait, event)


async def _ended(done: "asyncio.Future[None]") -> None:
    """Wait until a thread has ended, whatever it raised, and however often this task is cancelled."""
    cancelled = False
    while not done.done():
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError:
            cancelled = True
    with suppress(Exception):
        done.exception()
    if cancelled:
        raise asyncio.CancelledError
