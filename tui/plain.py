"""`edgellm chat --plain`: the chat in lines, for pipes and screen readers. Replies go to stdout, all else to stderr."""

import sys
from contextlib import suppress
from queue import Empty, Queue

from edgellm.errors import EdgeLLMError
from tui.commands import COMMANDS, run
from tui.core.backend import Backend
from tui.core.desk import Desk
from tui.core.events import Event, ModelFailed, ModelOpened, Notice, ReplyEnded
from tui.core.store import Store
from tui.instruments.figures import figures_line

_LOOK_S = 0.03
_QUOTES = '"""'
_VIEWS = ("models", "settings", "chats", "help", "stats")


class Plain:
    """A front of lines. A message is one line, or all between two lines of three quotes; a slash begins a command."""

    def __init__(self, store: Store, backend: Backend) -> None:
        self._told: Queue[Event] = Queue()
        self.desk = Desk(store, backend, self._told.put)
        self._attached: list[str] = []
        self._leaving = False
        self._live = sys.stdin.isatty()

    def run(self, model: str) -> None:
        """Talk until the input ends. Raises EdgeLLMError if the model cannot be opened, and KeyboardInterrupt."""
        try:
            self.desk.open_model(model)
            failed = self._until(ModelOpened, ModelFailed)
            if isinstance(failed, ModelFailed):
                raise EdgeLLMError(failed.problem)
            if self._live:
                self.say(f"{self.desk.model} is ready; /help shows the commands, Ctrl-D leaves")
            while not self._leaving and (text := self._read()) is not None:
                self._take(text)
        finally:
            self.desk.close()

    def _read(self) -> str | None:
        """The next message or command; None at the end of the input."""
        line = self._line("> ")
        if line is None or line.strip() != _QUOTES:
            return line
        lines = []
        while (line := self._line(". ")) is not None and line.strip() != _QUOTES:
            lines.append(line)
        return "\n".join(lines)

    def _line(self, prompt: str) -> str | None:
        if self._live:
            print(prompt, end="", file=sys.stderr, flush=True)  # noqa: T201
        line = sys.stdin.readline()
        return line.rstrip("\r\n") if line else None

    def _take(self, text: str) -> None:
        with suppress(KeyboardInterrupt):
            try:
                if text.startswith("/"):
                    run(COMMANDS, self, text)
                elif text.strip():
                    self.desk.send("\n\n".join([*self._attached, text]))
                    self._attached.clear()
                self._follow()
            except EdgeLLMError as error:
                self.say(str(error), "error")

    def _follow(self) -> None:
        """Write the reply, if there is one, as it comes; Ctrl-C stops it."""
        if (running := self.desk.running) is None:
            self._drain()
            return
        shown = ""
        try:
            while self.desk.running == running:
                with suppress(Empty):
                    self._hear(self._told.get(timeout=_LOOK_S))
                if self.desk.worker.running == running:
                    shown = self._show(shown, self.desk.worker.text())
        except KeyboardInterrupt:
            self.desk.stop()
            self._until(ReplyEnded)
        self._show(shown, self.desk.chat.tree.messages[running].text)
        print(flush=True)  # noqa: T201
        message = self.desk.chat.tree.messages[running]
        if message.stats:
            self.say(figures_line(message.stats, message.finish_reason, message.dropped_tokens))

    def _show(self, shown: str, text: str) -> str:
        print(text[len(shown) :], end="", flush=True)  # noqa: T201
        return text

    def _until(self, *kinds: type[Event]) -> Event:
        while not isinstance(event := self._told.get(), kinds):
            self._hear(event)
        self._hear(event)
        return event

    def _drain(self) -> None:
        with suppress(Empty):
            while True:
                self._hear(self._told.get_nowait())

    def _hear(self, event: Event) -> None:
        self.desk.heard(event)
        if isinstance(event, Notice):
            self.say(event.text, event.severity)

    # What commands ask for

    def say(self, text: str, severity: str = "information") -> None:
        """A line on stderr."""
        print(text, file=sys.stderr, flush=True)  # noqa: T201

    def attach(self, name: str, text: str) -> None:
        """Put a file before the next message."""
        self._attached.append(f"{name}:\n\n{text}")

    def edit(self, message: int) -> None:
        """Say something else in place of an earlier message."""

    def show(self, view: str) -> None:
        """Print what a view of the screen would show."""

    def clear(self) -> None:
        """Begin a new chat."""
        self.desk.new_chat()

    def leave(self) -> None:
        """End after this line."""
        self._leaving = True
