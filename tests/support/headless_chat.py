"""A frontend without a screen, for tests of the chat controller."""

from collections.abc import Callable
from pathlib import Path
from queue import Queue

from support.chat_fakes import FakeBackend, FakeModel
from tui.core.backend import Backend
from tui.core.controller import ChatController
from tui.core.events import Event, ModelOpened, Notice, ReplyEnded
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.store import Store


class HeadlessFrontend:
    """A chat controller, and a queue of its events, which `until` passes to it."""

    def __init__(
        self,
        path: Path,
        model: FakeModel | None = None,
        run_options: RunOptions = NO_RUN_OPTIONS,
        first_model: str | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.events: Queue[Event] = Queue()
        self.notices: list[str] = []
        self.backend = FakeBackend(model or FakeModel())
        self.controller = ChatController(
            Store(path), backend or self.backend, self.events.put, run_options, first_model
        )

    def until(self, kind: type[Event]) -> Event:
        while True:
            event = self.events.get(timeout=20)
            self.controller.on_event(event)
            if isinstance(event, Notice):
                self.notices.append(event.text)
            if isinstance(event, kind):
                return event

    def open(self, name: str = "fake") -> None:
        self.controller.model.open(name)
        self.until(ModelOpened)

    def say(self, text: str) -> None:
        self.controller.sender.send(text)
        self.until(ReplyEnded)

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.controller.conversation.path]


MakeFrontend = Callable[..., HeadlessFrontend]
