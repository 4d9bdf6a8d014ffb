"""The screen of the conversation: it connects the widgets with the desk, and runs what a person asks for."""

from collections.abc import Iterable
from time import monotonic
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.timer import Timer
from textual.widget import Widget

from edgellm.errors import EdgeLLMError
from tui.chat.bindings import BINDINGS
from tui.chat.browsing import BrowsingScreen
from tui.chat.chats import ROOM_FOR_ALL
from tui.chat.key_bar import KeyBar
from tui.chat.refresh_rate import SHORTEST_S, RefreshRate
from tui.chat.resizing import ResizeNotifier
from tui.chat.transcript_entries import TranscriptEntries
from tui.chat.welcome import Welcome
from tui.commands import COMMANDS
from tui.commands.completion import complete
from tui.composer import Attachment, Composer
from tui.core.activity import Activity, Phase
from tui.core.controller import ChatController
from tui.core.events import (
    AttachmentCounted,
    ChatsChanged,
    Event,
    ModelFailed,
    ModelOpened,
    Notice,
    PathChanged,
    ReplyEnded,
    SettingsChanged,
)
from tui.core.files import with_files
from tui.core.memory import Memory, memory
from tui.instruments import Panel, StatusLine
from tui.sidebar import Sidebar
from tui.transcript import Transcript

_FIGURES_S, _MEMORY_S = 1 / 4, 2.0
_FITTED = "Transcript, Welcome, Editor, StatusLine, Panel, Sidebar OptionList"  # what they show depends on their size


class ChatScreen(BrowsingScreen):
    """The conversation, the input, and the instruments."""

    CSS_PATH = "screen.tcss"
    AUTO_FOCUS = "Editor"
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-high")]  # noqa: RUF012 (an instance variable of its base)
    BINDINGS: ClassVar[list[BindingType]] = BINDINGS

    def __init__(self, desk: ChatController) -> None:
        super().__init__(desk)
        self._memory: Memory | None = None
        self._pace, self._due = RefreshRate(), 0.0
        self._ticker: Timer | None = None
        self._phase, self._figures_at = Phase.CLOSED, 0.0
        self._unsaved = ""
        self._dropped = 0
        self._ran: int | None = None
        self._entries = TranscriptEntries(self.desk)

    def compose(self) -> ComposeResult:
        """The parts of the screen."""
        with Horizontal(id="middle"):
            yield Sidebar()
            with Vertical(id="conversation"):
                with Container(id="talk"):
                    yield Transcript()
                    yield Welcome()
                yield Composer(self._hint())
                yield StatusLine()
            yield Panel()
        yield KeyBar()

    def on_mount(self) -> None:
        """Fill it, and begin to look at the model."""
        sizes = ResizeNotifier(list(self.query(Widget).filter(_FITTED)))
        self.screen_layout_refresh_signal.subscribe(self, sizes.laid_out)
        composer = self.query_one(Composer)
        self.attempt(lambda: composer.form.set_history(self.desk.store.history()))
        composer.set_completer(lambda line, cursor: complete(line, cursor, self.desk.known.names))
        self.begin_draft()
        self._ticker = self.set_interval(SHORTEST_S, self._look_if_due)
        self.set_interval(_MEMORY_S, self._look_at_memory)
        self.show_path()

    # What happens

    def heard(self, event: Event) -> None:
        """Show what the desk or the worker told."""
        if isinstance(event, ModelOpened | ModelFailed):
            self.desk.known.look()
        if isinstance(event, Notice):
            self.say(event.text, event.severity)
        elif isinstance(event, PathChanged | SettingsChanged):
            if not self.desk.busy:  # another branch may be shown
                self.query_one(Composer).queue.take_back()
            self.show_path()
            self._judge()
        elif isinstance(event, ChatsChanged):
            self.show_chats()
        elif isinstance(event, ModelFailed) and not (event.kept or event.to_set or self.query_one(Composer).unsent):
            self.show("models")  # but not in front of what is typed, or is to be: keys would go there
        elif isinstance(event, ReplyEnded):
            self._go_on(event)
        elif isinstance(event, ModelOpened):
            self._weigh(self.query_one(Composer).form.attachments)
        elif isinstance(event, AttachmentCounted):
            self._weighed(event)
        self.query_one(Composer).form.set_placeholder(self._hint())
        self._look()

    def _hint(self) -> str:
        if self.desk.opened:
            return "Say something, or / for commands"
        if self.desk.reading().phase is Phase.LOADING:
            if self.desk.running is not None:
                return "The reply comes as soon as the model is loaded"
            return "Type while the model loads: it is sent when that is ready"
        return "No model is open; F3 shows them"

    def show_path(self) -> None:
        """Show the conversation as it is now."""
        if self.desk.running not in (None, self._ran):  # what was just said is looked at
            self.query_one(Transcript).following = True
        self._ran = self.desk.running
        shown = self._entries.shown()
        self.query_one(Welcome).display = not shown
        self.query_one(Transcript).show(shown)
        self.refresh_bindings()

    def _look(self) -> None:
        """Show how far the reply is and what the instruments read; rests while nothing happens."""
        reading, running = self.desk.reading(), self.desk.running
        if running is not None and (written := self.desk.worker.written(running)):
            self.query_one(Transcript).set_text(running, written.text)
        if reading.dropped_messages != self._dropped:  # what no reply sees is told of by other events
            self._dropped = reading.dropped_messages
            self.show_path()
        self._show_figures(reading)
        if (welcome := self.query_one(Welcome)).display:
            welcome.show(reading, self.desk.refused or "")
        self._due = monotonic() + self._pace.wait()
        if self._ticker:
            busy = running is not None or reading.phase is Phase.LOADING
            self._ticker.resume() if busy else self._ticker.pause()

    def _look_if_due(self) -> None:
        if monotonic() >= self._due:
            self._look()

    def _show_figures(self, reading: Activity) -> None:
        """Show the figures: a few times a second while text comes, as they cost as much as the text; else at once."""
        now, phases = monotonic(), {self._phase, reading.phase}
        if phases != {Phase.DECODE} or now - self._figures_at >= _FIGURES_S:
            self._phase, self._figures_at = reading.phase, now
            self.query_one(StatusLine).show(reading, self._memory)
            self.query_one(Panel).show(reading, self._memory)

    def _look_at_memory(self) -> None:
        self._memory = memory()
        self._look()

    # What the person does

    @on(Composer.Sent)
    def _sent(self, message: Composer.Sent) -> None:
        composer = self.query_one(Composer)
        self.query_one(Transcript).selected = None
        self.desk.begin()  # what was typed ahead may be sent before the screen stands
        if message.editing is None and (self.desk.busy or composer.queue):
            composer.queue.push(message)
            self.keep()
        else:
            composer.queue.take_back()  # an edit leads to another branch
            self._say(message)

    def _say(self, message: Composer.Sent) -> None:
        composer = self.query_one(Composer)
        text = with_files(message.text, ((each.name, each.text) for each in message.attachments))
        try:
            if message.editing is None:
                self.desk.send(text)
            else:
                self.desk.say_instead(message.editing, text)
        except EdgeLLMError as error:
            self.say(str(error), "error")
            composer.queue.take_back()
            composer.queue.give_back(message)
        self.keep()

    def _go_on(self, ended: ReplyEnded) -> None:
        """After a reply that came to its end, send what waits for that; after another, the person decides."""
        composer = self.query_one(Composer)
        if composer.queue and not self.desk.busy:
            if ended.message == self.desk.chat.tree.leaf and ended.finish_reason not in ("cancelled", "error"):
                self._say(composer.queue.pop())
                self._ran = self.desk.running  # who reads further up, reads on
            else:
                composer.queue.take_back()

    @on(Composer.Attached)
    def _attached(self) -> None:
        self._weigh(each for each in self.query_one(Composer).form.attachments if each.tokens is None)
        self._judge()

    def _weigh(self, attachments: Iterable[Attachment]) -> None:
        for each in attachments:
            self.desk.weigh(each.name, each.text)

    def _weighed(self, event: AttachmentCounted) -> None:
        """Say how much a text weighs; a file that no conversation has room for is taken away again."""
        composer = self.query_one(Composer)
        composer.form.attachment_bar.set_tokens(event.text, event.tokens)
        if event.name and event.tokens >= self.desk.reading().context:
            composer.form.attachment_bar.drop_text(event.text)
            self.say(f"{event.name} is not attached: {self.desk.too_long(event.tokens)}", "warning")
        elif problem := self._judge():
            self.say(problem, "warning")

    def _judge(self) -> str:
        """What is wrong with the length of all that is attached."""
        composer = self.query_one(Composer)
        problem = self.desk.too_long(sum(each.tokens or 0 for each in composer.form.attachments))
        composer.form.attachment_bar.warn(bool(problem))
        return problem and f"{', '.join(each.name or 'pasted text' for each in composer.form.attachments)}: {problem}"

    @on(Composer.CommandSent)
    def _command(self, message: Composer.CommandSent) -> None:
        composer = self.query_one(Composer)
        if not self.command(message.line) and message.line[1:] not in COMMANDS and not composer.text:
            composer.put_selected(message.line)  # to be mended

    @on(Composer.DraftChanged)
    def _changed(self, message: Composer.DraftChanged) -> None:
        problem = ""
        try:
            self.save_draft(message.text, message.files)
        except EdgeLLMError as error:
            problem = str(error)
        if problem not in ("", self._unsaved):  # said once, not for each key
            self.say(problem, "error")
        self._unsaved = problem

    def action_show(self, view: str) -> None:
        """Open a view."""
        self.show(view)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Offer what can be done now.

        Escape stops what runs, or else leads back to the input box, where Ctrl+D leaves as in a shell.
        """
        match action:
            case "stop":
                return self.desk.running is not None
            case "back":
                return self.browsing and self.desk.running is None
            case "leave":
                return not self.browsing
            case "regenerate":
                return self.desk.chat.tree.leaf is not None
        return True

    def action_stop(self) -> None:
        """Stop the reply; what waits for its end comes back."""
        self.desk.stop()
        self.query_one(Composer).queue.take_back()

    def action_leave(self) -> None:
        """End the program."""
        self.leave()

    def action_begin(self, line: str) -> None:
        """Begin a command in the input box."""
        self.begin(line)

    def action_clear(self) -> None:
        """Begin a new chat."""
        self.move(self.desk.new_chat)
        self.query_one(Composer).focus()

    def action_regenerate(self) -> None:
        """Reply once more."""
        self.attempt(self.desk.regenerate)

    def action_panel(self) -> None:
        """Show or hide the figures."""
        shown = self.query_one(Panel).toggle_class("shown").has_class("shown")
        if shown and self.size.width < ROOM_FOR_ALL:
            self.query_one(Sidebar).display = False
            self.query_one(Composer).focus()
