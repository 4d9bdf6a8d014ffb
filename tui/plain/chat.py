"""`edgellm chat --plain`: the chat in lines, for pipes and screen readers. Replies go to stdout, all else to stderr."""

from collections.abc import Iterable
from contextlib import suppress
from queue import Empty, Queue
from time import monotonic

from edgellm.errors import EdgeLLMError
from edgellm.system.folders import log_file
from tui.commands import COMMANDS, run_command
from tui.composer.slash import command_of, message_of, typed_for
from tui.core.activity import Phase
from tui.core.backend import Backend
from tui.core.controller import ChatController
from tui.core.events import AttachmentCounted, Event, Inspected, ModelOpened, Notice, ReplyEnded
from tui.core.files import with_files
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.store import Store
from tui.instruments.reply_stats import reply_stats_line
from tui.plain.input import PlainInput
from tui.plain.output import PlainOutput
from tui.plain.views import VIEWS, inspection_lines, message_lines, place_lines

_LOOK_S, _PATIENCE_S = 0.03, 2.0


class PlainChat:
    """A frontend of lines: what is asked for is waited for, and only then the next line is read."""

    def __init__(self, store: Store, backend: Backend, given: RunOptions = NO_RUN_OPTIONS) -> None:
        self._told: Queue[Event] = Queue()
        self.desk = ChatController(store, backend, self._told.put, given)
        self._input = PlainInput(store.history())
        self.desk.tuning.keeps = self._input.live
        self._attached: list[tuple[str, str]] = []
        self._output = PlainOutput()
        self._since, self._doing = monotonic(), ""
        self._leaving = False

    def run(self, model: str, chat: int | None = None) -> None:
        """Talk until the input ends. Raises KeyboardInterrupt, and SystemExit with 1 if there is no model.

        Where nobody sits in front of it, SystemExit also tells that something failed on the way.
        """
        try:
            if self._start(model, chat):
                if self.desk.given.message:
                    self._take(typed_for(self.desk.given.message))
                while not self._leaving and (text := self._input.read()) is not None:
                    self._take(text)
        finally:
            self.desk.close()
        if self._output.failed and not (self._input.live and self.desk.opened):
            raise SystemExit(1)

    def _start(self, model: str, chat: int | None) -> bool:
        if chat is not None:
            self.desk.go_on_with(chat)
        self.desk.open_model(model)
        self._attend()
        if chat is not None and self.desk.opened:
            self._say_lines(place_lines(self.desk))
        return self.desk.opened is not None

    def _take(self, text: str) -> None:
        try:
            if command := command_of(text):
                self._command(command)
            elif text.strip():
                self.desk.send(with_files(message_of(text), self._attached))
                self._attached.clear()
            self._follow()
        except EdgeLLMError as error:
            self.say(str(error), "error")

    def _command(self, line: str) -> None:
        before = self.desk.path
        run_command(COMMANDS, self, line)
        if self.desk.running is None and self.desk.path != before:
            self._say_lines(place_lines(self.desk))

    # What happens

    def _follow(self) -> None:
        """Attend to what was asked for. Ctrl-C stops the reply, and a second one leaves."""
        try:
            self._attend()
        except KeyboardInterrupt:
            self.desk.stop()
            self._attend()

    def _attend(self) -> None:
        """Wait until the worker has nothing left to do, and nothing to tell from which more would follow."""
        heard = True
        while heard:
            done = self.desk.worker.done()
            while not done.wait(_LOOK_S):
                self._look()
            heard = self._hear_all()

    def _look(self) -> None:
        """Say what has come of the reply, and what is being done before there can be one."""
        self._hear_all()
        running = self.desk.running
        written = None if running is None else self.desk.worker.written(running)
        if running is not None and written and self.desk.says_more(running, written.text):
            self._output.reply(written.text)
        self._say_progress()

    def _say_progress(self) -> None:
        """Say what keeps one waiting, each thing once: no line may be taken back here."""
        reading = self.desk.reading()
        if reading.phase is not Phase.LOADING:
            self._since, self._doing = monotonic(), ""
        elif monotonic() - self._since > _PATIENCE_S:
            doing = reading.progress.partition(":")[0]
            if doing != self._doing:
                self.say(doing)
            self._doing = doing

    def _hear_all(self) -> bool:
        """Take note of what was told; whether there was anything."""
        heard = False
        with suppress(Empty):
            while True:
                self._hear(self._told.get_nowait())
                heard = True
        return heard

    def _hear(self, event: Event) -> None:
        if isinstance(event, ReplyEnded) and self.desk.says_more(event.message, event.text):
            self._ended(event)
        self.desk.heard(event)
        if isinstance(event, Notice):
            self.say(event.text, event.severity)
        elif isinstance(event, Inspected):
            self._say_lines(inspection_lines(event.inspection))
        elif isinstance(event, AttachmentCounted):
            self._weighed(event)
        elif isinstance(event, ModelOpened):
            self.say(f"{event.name} is ready; /help shows the commands")

    def _ended(self, event: ReplyEnded) -> None:
        self._output.end(event.text)
        if event.finish_reason != "error" or event.stats:  # one without figures never began, and an error tells why
            self.say(reply_stats_line(event.stats or {}, event.finish_reason, event.dropped_tokens))

    def _weighed(self, event: AttachmentCounted) -> None:
        """Say how much a file weighs; one that no conversation has room for does not go with the message."""
        problem = self.desk.too_long(event.tokens)
        if event.tokens >= self.desk.reading().context:
            self._attached = [file for file in self._attached if file[1] is not event.text]
            problem = f"does not go with the message: {problem}"
        self.say(f"{event.name}: {problem or f'{event.tokens:,} tokens'}")

    def _say_lines(self, lines: Iterable[str]) -> None:
        self.say("\n".join(lines))

    # What commands ask for

    def say(self, text: str, severity: str = "information") -> None:
        """Lines on stderr."""
        self._output.say(text, severity)

    def attach(self, name: str, text: str) -> None:
        """Put a file before the next message."""
        self._attached.append((name, text))
        self.say(f"{name} will go with the next message")
        self.desk.weigh(name, text)

    def point_at(self, message: int, words: str) -> None:
        """Print a message."""
        self._say_lines(message_lines(self.desk, self.desk.chat.tree.messages[message]))

    def edit(self, message: int) -> None:
        """Ask for other words in place of an earlier message; Ctrl-C leaves it as it is, and so does a command."""
        self.say(f"instead of: {self.desk.chat.tree.messages[message].text}")
        text = None
        with suppress(KeyboardInterrupt):
            text = self._input.read()
        command = command_of(text or "")
        if text and text.strip() and not command:
            self.desk.edit(message, message_of(text))
        else:
            self.say("the message stays as it was")
        if command:
            run_command(COMMANDS, self, command)

    def show(self, view: str) -> None:
        """Print what a view of the screen would show."""
        if view == "inspector":
            self.desk.inspect()
        elif view == "log":
            self.say(f"errors in full are in {log_file()}; what libraries print is on stderr")
        else:
            self._say_lines(VIEWS[view](self.desk))

    def leave(self) -> None:
        """End after this line."""
        self._leaving = True
