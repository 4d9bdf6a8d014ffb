"""A worker of the chat with a fake model, and its events."""

from collections.abc import Iterator
from queue import Queue

from support.chat_fakes import FakeBackend
from tui.core.events import Event
from tui.core.worker import Worker

ASKED = [{"role": "user", "content": "hello"}]


def no_options(name: str, path: str) -> dict[str, object]:
    return {}


class WorkerHarness:
    """A worker, and the queue of its events."""

    def __init__(self, backend: FakeBackend) -> None:
        self.events: Queue[Event] = Queue()
        self.backend, self.worker = backend, Worker(backend, self.events.put)

    def next(self) -> Event:
        return self.events.get(timeout=20)


def harnessed() -> Iterator[WorkerHarness]:
    """A worker that is closed afterwards, with its model."""
    harness = WorkerHarness(FakeBackend())
    yield harness
    harness.worker.close()
    assert harness.backend.model.closed or not harness.backend.opened
