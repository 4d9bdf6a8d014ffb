"""`edgellm chat --plain`: the chat in lines, for pipes and screen readers. Replies go to stdout, all else to stderr."""

import sys
from contextlib import suppress
from queue import Empty, Queue

from edgellm.errors import EdgeLLMError
from edgellm.gguf.printable import printable_lines
from tui.commands import COMMANDS, run
from tui.core.backend import Backend
from tui.core.desk import Desk
from tui.core.events import Event, Inspected, ModelFailed, ModelOpened, Notice, ReplyEnded, Settled
from tui.core.files import with_files
from tui.core.store import Store
from tui.instruments.figures import figures_line
from tui.plain_views import VIEWS, inspection_lines

_LOOK_S = 0.03
_QUOTES = '"""'


class Plain:
    """A front of lines. A message is one line, or all between two lines of three quotes; a slash begins a command."""

    def __init__(self, store: Store, backend: Backend) -> None:
        self._told: Queue[Event] = Queue()
        self.desk = Desk(store, backend, self._told.put)
        self._attached: list[tuple[str, str]] = []
        self._leaving = False
        self._live = sys.stdin.isatty()

    def run(self, model: str, chat: int | None = None) -> None:
        """Talk until the input ends. Raises EdgeLLMError if the model cannot be opened, and KeyboardInterrupt."""
        try:
            if chat is not None:
                self.desk.open_chat(chat)
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
                    self.desk.send(with_files(text, self._attached))
                    self._attached.clear()
                self._follow()
            except EdgeLLMError as error:
                self.say(str(error), "error")

    def _follow(self) -> None:
        """Write the reply, if there is one, as it comes; Ctrl-C stops it."""
        if (running := self.desk.running) is None:
            self._settle()
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
        if self._show(shown, self.desk.chat.tree.messages[running].text):
            print(flush=True)  # noqa: T201
        self._settle()  # what is told about its end
        if figures := self._figures():
            self.say(figures)

    def _figures(self) -> str:
        last = self.desk.path[-1:]
        return next((figures_line(m.stats, m.finish_reason, m.dropped_tokens) for m in last if m.stats), "")

    def _show(self, shown: str, text: str) -> str:
        print(text[len(shown) :], end="", flush=True)  # noqa: T201
        return text

    def _until(self, *kinds: type[Event]) -> Event:
        while not isinstance(event := self._told.get(), kinds):
            self._hear(event)
        self._hear(event)
        return event

    def _settle(self) -> None:
        """Wait for what a command asked of the model: the next line may be about that."""
        settled = Settled()
        self.desk.worker.settle(settled)
        while self._until(Settled) is not settled:
            pass

    def _hear(self, event: Event) -> None:
        self.desk.heard(event)
        if isinstance(event, Notice):
            self.say(event.text, event.severity)
        elif isinstance(event, Inspected):
            self.say("\n".join(inspection_lines(event.inspection)))

    # What commands ask for

    def say(self, text: str, severity: str = "information") -> None:
        """A line on stderr."""
        print(printable_lines(text), file=sys.stderr, flush=True)  # noqa: T201

    def attach(self, name: str, text: str) -> None:
        """Put a file before the next message."""
        self._attached.append((name, text))

    def edit(self, message: int) -> None:
        """Ask for other words in place of an earlier message."""
        self.say(f"instead of: {self.desk.chat.tree.messages[message].text}")
        if text := self._read():
            self.desk.edit(message, text)

    def show(self, view: str) -> None:
        """Print what a view of the screen would show."""
        if view == "inspector":
            self.desk.inspect()
            self._until(Inspected, Notice)
        elif view == "stats":
            self.say(self._figures() or "no reply yet")
        elif view == "log":
            self.say("here, libraries print to stderr; there is no log")
        else:
            self.say("\n".join(VIEWS[view](self.desk)))

    def leave(self) -> None:
        """End after this line."""
        self._leaving = True
