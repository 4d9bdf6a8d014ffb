"""A server on loopback, in a thread of the tests, with small models."""

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgellm import __version__
from edgellm.server.listen import listening
from edgellm.server.run import ModelServer, serve
from edgellm.server.settings import ServeSettings

LOAD = {"threads": 1}
TIMEOUT_S = 60
_QUESTION = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": _QUESTION,
    "/v1/completions": {"model": "m", "prompt": "x"},
    "/v1/responses": {"model": "m", "input": "x"},
    "/v1/messages": {**_QUESTION, "max_tokens": 4},
    "/api/chat": _QUESTION,
    "/api/generate": {"model": "m", "prompt": "x"},
}
"""The shortest body of each route that generates, for a model "m"."""


@dataclass
class Served:
    """A server that runs: its address, and the lines of its log."""

    url: str
    server: ModelServer
    log: list[str] = field(default_factory=list)
    on_line: Callable[[str], None] = lambda line: None  # called while a line of the log is written

    @property
    def port(self) -> int:
        """The port."""
        return int(self.url.rpartition(":")[2])

    def raw(self, request: bytes) -> bytes:
        """All that the server answers to bytes, until it closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S) as client:
            client.sendall(request)
            found = b""
            while part := client.recv(65536):
                found += part
            return found

    def idle(self) -> bool:
        """Whether no request runs or waits."""
        slots = self.server.service.slots
        return not (slots.running or slots.waiting)

    def wait_until_idle(self) -> None:
        """Wait until no request runs or waits."""
        self.wait_until(self.idle)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds. Raises TimeoutError."""
        waiting = threading.Event()
        for _ in range(TIMEOUT_S * 100):
            if condition():
                return
            waiting.wait(0.01)
        raise TimeoutError("it never holds")


@contextmanager
def served(*models: Path, **settings: Any) -> Iterator[Served]:
    """A server of these models, stopped at the end."""
    given = ServeSettings(tuple(map(str, models)), load=LOAD, port=0, version=__version__, **settings)
    ready, log, found = threading.Event(), list[str](), list[Served]()
    writing = list[str]()

    with listening(given) as (bound, address):

        def write(line: str) -> None:
            assert not writing, "stderr is not reentrant"
            writing.append(line)
            log.append(line)
            if found:
                found[0].on_line(line)
            writing.clear()

        def begin(server: ModelServer) -> None:
            found.append(Served(address, server, log))
            ready.set()

        thread = threading.Thread(target=_run, args=(given, bound, begin, write, ready))
        thread.start()
        try:
            assert ready.wait(TIMEOUT_S) and found, log
            asyncio.run(_started(found[0].server))
            yield found[0]
        finally:
            if found:
                found[0].server.handle_exit(signal.SIGTERM, None)
                found[0].server.handle_exit(signal.SIGTERM, None)
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()


def _run(settings: ServeSettings, bound: socket.socket, begin: Any, write: Any, ready: threading.Event) -> None:
    try:
        serve(settings, bound, begin, write)
    except Exception as error:
        write(f"failed: {error!r}")
        ready.set()


async def _started(server: ModelServer) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
