"""`edgellm chat --plain`: replies go to stdout, all else to stderr."""

from collections.abc import Iterable
from contextlib import suppress
from queue import Queue

from edgellm.errors import EdgeLLMError
from edgellm.system.folders import log_file
from tui.commands import COMMANDS, run_command
from tui.composer.slash import command_of, message_of, typed_for
from tui.core.backend import Backend
from tui.core.call_texts import result_summary
from tui.core.controller import ChatController
from tui.core.events import AttachmentCounted, Event, Inspected, ModelOpened, Notice, ReplyEnded, ResultAdded
from tui.core.files import with_files
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.store import Store
from tui.instruments.reply_stats import reply_stats_line
from tui.plain.event_loop import EventLoop
from tui.plain.input import PlainInput
from tui.plain.output import PlainOutput
from tui.plain.progress import LoadingProgress
from tui.plain.questions import CallQuestions
from tui.plain.views import VIEWS, inspection_lines, message_lines, place_lines


class PlainChat:
    """The `tui.commands.Frontend` without a screen.

    It reads a line only when everything that the line before asked for is done.
    """

    def __init__(self, store: Store, backend: Backend, run_options: RunOptions = NO_RUN_OPTIONS) -> None:
        events: Queue[Event] = Queue()
        self.controller = ChatController(store, backend, events.put, run_options)
        worker, self._replies = self.controller.worker, self.controller.replies
        self._loop = EventLoop(
            events,
            worker,
            self.controller.stop,
            lambda: self.controller.works_in_background,
            self._show_event,
            self._show_progress,
        )
        self._input = PlainInput(store.preferences.history())
        self._questions = CallQuestions(self.controller.calls, self._input, self.say)
        self.controller.settings.autosave = self._input.is_terminal
        self._output = PlainOutput()
        self._progress = LoadingProgress(self.say)
        self._attached: list[tuple[str, str]] = []
        self._leaving = False

    def run(self, model: str, chat: int | None = None) -> None:
        """Chat until the input ends.

        Raises KeyboardInterrupt, and SystemExit with 1 if no model is open or, where the input is no terminal, after
        any error.
        """
        try:
            if self._start(model, chat):
                if message := self.controller.run_options.message:
                    self._take(typed_for(message))
                while not self._leaving and (text := self._read()) is not None:
                    self._take(text)
        finally:
            self.controller.close()
        if self._output.failed and not (self._input.is_terminal and self.controller.model.opened):
            raise SystemExit(1)

    def _read(self) -> str | None:
        return self._questions.unread.pop() if self._questions.unread else self._input.read()

    def _start(self, model: str, chat: int | None) -> bool:
        """Open the first chat and model. Returns whether the model is open."""
        if chat is not None:
            self.controller.resume(chat)
        self.controller.model.open(model)
        self._loop.run()
        is_open = self.controller.model.opened is not None
        if chat is not None and is_open:
            self._say_lines(place_lines(self.controller.conversation))
        return is_open

    def _take(self, text: str) -> None:
        """Run a command or send a message, and wait for all that follows from it."""
        try:
            if command := command_of(text):
                self._run(command)
            elif text.strip():
                self.controller.sender.send(with_files(message_of(text), self._attached))
                self._attached.clear()
            self._finish()
        except EdgeLLMError as error:
            self.say(str(error), "error")

    def _finish(self) -> None:
        """Wait for all that follows, and ask before each call of a tool. The first Ctrl-C stops it."""
        self._loop.run_interruptible()
        while question := self.controller.calls.question:
            try:
                self._questions.ask(question)
            except KeyboardInterrupt:
                self.controller.stop()
            self._loop.run_interruptible()

    def _run(self, line: str) -> None:
        conversation = self.controller.conversation
        before = conversation.path
        run_command(COMMANDS, self, line)
        if self._replies.running is None and conversation.path != before:
            self._say_lines(place_lines(conversation))

    # What happens meanwhile

    def _show_progress(self) -> None:
        """Print the text of the running reply so far, or the progress of loading."""
        running = self._replies.running
        written = None if running is None else self.controller.worker.written(running)
        if running is not None and written and self._replies.adds_text(running, written.text):
            self._output.reply(written.text)
        self._progress.show(self.controller.status.activity())

    def _show_event(self, event: Event) -> None:
        if isinstance(event, ReplyEnded) and self._replies.adds_text(event.message, event.text):
            self._show_end(event)
        self.controller.on_event(event)
        if isinstance(event, Notice):
            self.say(event.text, event.severity)
        elif isinstance(event, ResultAdded):
            self.say(result_summary(event.call, event.result))
        elif isinstance(event, Inspected):
            self._say_lines(inspection_lines(event.inspection))
        elif isinstance(event, AttachmentCounted):
            self._show_count(event)
        elif isinstance(event, ModelOpened):
            self.say(f"{event.name} is ready; /help shows the commands")

    def _show_end(self, event: ReplyEnded) -> None:
        self._output.end(event.text)
        if event.finish_reason != "error" or event.stats:  # without figures it never began, and its error says why
            self.say(reply_stats_line(event.stats or {}, event.finish_reason, event.dropped_tokens))

    def _show_count(self, event: AttachmentCounted) -> None:
        """Print the tokens of a file. A file that is larger than the whole context is not sent."""
        status = self.controller.status
        problem = status.too_long(event.tokens)
        if event.tokens >= status.activity().context:
            self._attached = [file for file in self._attached if file[1] is not event.text]
            problem = f"does not go with the message: {problem}"
        self.say(f"{event.name}: {problem or f'{event.tokens:,} tokens'}")

    def _say_lines(self, lines: Iterable[str]) -> None:
        self.say("\n".join(lines))

    # The methods of Frontend

    def say(self, text: str, severity: str = "information") -> None:
        """Print lines on stderr."""
        self._output.say(text, severity)

    def attach(self, name: str, text: str) -> None:
        """Send a file with the next message."""
        self._attached.append((name, text))
        self.say(f"{name} will go with the next message")
        self.controller.tokens.count_attachment(name, text)

    def point_at(self, message: int, words: str) -> None:
        """Print a message."""
        conversation = self.controller.conversation
        self._say_lines(message_lines(conversation, conversation.chat.tree.messages[message]))

    def edit(self, message: int) -> None:
        """Read another text for an earlier message. After Ctrl-C or a command the message stays as it is."""
        self.say(f"instead of: {self.controller.conversation.chat.tree.messages[message].text}")
        text = None
        with suppress(KeyboardInterrupt):
            text = self._input.read()
        command = command_of(text or "")
        if text and text.strip() and not command:
            self.controller.sender.edit(message, message_of(text))
        else:
            self.say("the message stays as it was")
        if command:
            run_command(COMMANDS, self, command)

    def show(self, view: str) -> None:
        """Print what a view of the screen would show."""
        if view == "inspector":
            self.controller.status.inspect()
        elif view == "log":
            self.say(f"errors in full are in {log_file()}; what libraries print is on stderr")
        else:
            self._say_lines(VIEWS[view](self.controller))

    def leave(self) -> None:
        """End after this line."""
        self._leaving = True
