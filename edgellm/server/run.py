"""Runs a server until a signal: uvicorn, with a graceful stop."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from types import FrameType

import uvicorn

from edgellm.exit_codes import INTERRUPTED
from edgellm.server.app import make_app
from edgellm.server.protocol import TimedProtocol
from edgellm.server.service import Service
from edgellm.server.settings import GRACE_S, MAX_CONNECTIONS, ServeSettings

_STOPPING = "stopping: running requests may end; once more stops at once"


class ModelServer(uvicorn.Server):
    """A server that the first SIGINT or SIGTERM stops gracefully, and the second at once."""

    def __init__(self, service: Service, log: Callable[[str], None]) -> None:
        super().__init__(_configured(service, log))
        self.service, self._log = service, log
        self._loop = asyncio.get_running_loop()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals; uvicorn would raise them again at the end. Only the main thread gets any."""
        numbers = (signal.SIGINT, signal.SIGTERM) if current_thread() is main_thread() else ()
        before = [signal.signal(number, self.handle_exit) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop. The loop does what takes more than a flag: a signal may come while a line of the log is written."""
        self.force_exit = self.should_exit
        self.should_exit = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if not self.force_exit:
            return self._log(_STOPPING)
        for task in list(self.server_state.tasks):
            task.cancel()
        return None


def serve(
    settings: ServeSettings, bound: socket.socket, ready: Callable[[ModelServer], None], log: Callable[[str], None]
) -> int:
    """Serve on a bound socket until a signal; `log` gets a line for each request. Returns the exit code.

    The first model that the user named is opened before `ready` is called. Raises the errors of `Model.open`.
    """
    return asyncio.run(_serve(settings, bound, ready, log))


async def _serve(
    settings: ServeSettings, bound: socket.socket, ready: Callable[[ModelServer], None], log: Callable[[str], None]
) -> int:
    service = Service(settings)
    try:
        if settings.models:
            async with service.models.use(service.catalog.find(None)):
                pass
        server = ModelServer(service, log)
        ready(server)
        await server.serve([bound])
        return INTERRUPTED if server.force_exit else 0
    finally:
        await service.close()


def _configured(service: Service, log: Callable[[str], None]) -> uvicorn.Config:
    """uvicorn's settings."""
    return uvicorn.Config(
        make_app(service, log),
        http=TimedProtocol,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=int(GRACE_S),
    )
