"""A desk and a frontend for it."""

from collections.abc import Callable
from pathlib import Path
from queue import Queue

from support.chat_fakes import FakeBackend, FakeModel
from tui.core.controller import ChatController
from tui.core.events import Event, ModelOpened, Notice, ReplyEnded
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.store import Store


class Frontend:
    """A desk, and somebody who passes on to it what its worker tells."""

    def __init__(self, path: Path, model: FakeModel | None = None, given: RunOptions = NO_RUN_OPTIONS) -> None:
        self.told: Queue[Event] = Queue()
        self.notices: list[str] = []
        self.backend = FakeBackend(model or FakeModel())
        self.desk = ChatController(Store(path), self.backend, self.told.put, given)

    def until(self, kind: type[Event]) -> Event:
        while True:
            event = self.told.get(timeout=20)
            self.desk.heard(event)
            if isinstance(event, Notice):
                self.notices.append(event.text)
            if isinstance(event, kind):
                return event

    def open(self, name: str = "fake") -> None:
        self.desk.open_model(name)
        self.until(ModelOpened)

    def say(self, text: str) -> None:
        self.desk.send(text)
        self.until(ReplyEnded)

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.desk.path]


MakeFrontend = Callable[..., Frontend]
