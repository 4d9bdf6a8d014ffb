"""The screen of the conversation: it connects the widgets with the desk, and runs what a person asks for."""

from collections.abc import Iterable
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.timer import Timer
from textual.widget import Widget

from edgellm.errors import EdgeLLMError
from tui.chat.bindings import BINDINGS
from tui.chat.entries import Entries
from tui.chat.front import FrontScreen
from tui.chat.keys import Keys, key_of
from tui.chat.sizes import Sizes
from tui.chat.welcome import Welcome
from tui.commands import COMMANDS
from tui.commands.completing import complete
from tui.composer import Attachment, Composer
from tui.core.desk import Desk
from tui.core.events import (
    ChatsChanged,
    Event,
    ModelFailed,
    ModelOpened,
    Notice,
    PathChanged,
    SettingsChanged,
    Weighed,
)
from tui.core.files import with_files
from tui.core.known import Known
from tui.core.machine import Memory, memory
from tui.core.reading import Phase
from tui.instruments import Panel, StatusLine
from tui.sidebar import Sidebar
from tui.transcript import Transcript

_TICK_S, _MEMORY_S = 1 / 10, 2.0
# Of a 1.2B model's speed on two cores 20 looks a second took 6 to 13 %, 10 with greedy decoding 2 %.
_ROOM_FOR_ALL = 110  # columns, below which the list of chats and the figures take turns
_FITTED = "Transcript, Welcome, Editor, StatusLine, Panel, Sidebar OptionList"  # what they show depends on their size


class ChatScreen(FrontScreen):
    """The conversation, the input, and the instruments."""

    CSS_PATH = "screen.tcss"
    AUTO_FOCUS = "Editor"
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-high")]  # noqa: RUF012 (an instance variable of its base)
    BINDINGS: ClassVar[list[BindingType]] = BINDINGS

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._memory: Memory | None = None
        self._ticker: Timer | None = None
        self._searched = self._unsaved = ""
        self._dropped = 0
        self._ran: int | None = None
        self._deleted: list[int] = []
        self._entries = Entries(self.desk)
        self._known = Known()

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
        yield Keys()

    def on_mount(self) -> None:
        """Fill it, and begin to look at the model."""
        sizes = Sizes(list(self.query(Widget).filter(_FITTED)))
        self.screen_layout_refresh_signal.subscribe(self, sizes.laid_out)
        composer = self.query_one(Composer)
        self.attempt(lambda: composer.set_history(self.desk.store.history()))
        composer.set_completer(lambda line, cursor: complete(line, cursor, self._known.names))
        composer.text = self.desk.draft()
        self._ticker = self.set_interval(_TICK_S, self._look)
        self.set_interval(_MEMORY_S, self._look_at_memory)
        self._show_path()

    # What happens

    def heard(self, event: Event) -> None:
        """Show what the desk or the worker told."""
        if isinstance(event, ModelOpened | ModelFailed):
            self._known.look()
        if isinstance(event, Notice):
            self.say(event.text, event.severity)
        elif isinstance(event, PathChanged | SettingsChanged):
            self._show_path()
        elif isinstance(event, ChatsChanged):
            self._show_chats()
        elif isinstance(event, ModelFailed):
            self.show("models")
        elif isinstance(event, ModelOpened):
            self._weigh(self.query_one(Composer).weights)
        elif isinstance(event, Weighed):
            self.query_one(Composer).weigh(event.text, event.tokens)
            if problem := self._judge():
                self.say(problem, "warning")
        self.query_one(Composer).placeholder = self._hint()
        self._look()

    def _hint(self) -> str:
        if self.desk.opened:
            return "Say something, or / for commands"
        if self.desk.reading().phase is Phase.LOADING:
            return "Type while the model loads: it is sent when that is ready"
        return "No model is open; F3 shows them"

    def _show_path(self) -> None:
        if self.desk.running not in (None, self._ran):  # what was just said is looked at
            self.query_one(Transcript).following = True
        self._ran = self.desk.running
        shown = self._entries.shown()
        self.query_one(Welcome).display = not shown
        self.query_one(Transcript).show(shown)
        self.refresh_bindings()

    def _show_chats(self) -> None:
        sidebar = self.query_one(Sidebar)
        if sidebar.display:
            self.attempt(lambda: sidebar.show(self.desk.chats(self._searched), self.desk.chat.id))

    def _look(self) -> None:
        """Show how far the reply is and what the instruments read; rests while nothing happens."""
        reading, running = self.desk.reading(), self.desk.running
        if running is not None and self.desk.worker.running == running:
            self.query_one(Transcript).set_text(running, self.desk.worker.text())
        if reading.dropped_messages != self._dropped:  # what no reply sees is told of by other events
            self._dropped = reading.dropped_messages
            self._show_path()
        self.query_one(StatusLine).show(reading, self._memory)
        self.query_one(Panel).show(reading, self._memory)
        if (welcome := self.query_one(Welcome)).display:
            welcome.show(reading)
        if self._ticker:
            busy = running is not None or reading.phase is Phase.LOADING
            self._ticker.resume() if busy else self._ticker.pause()

    def _look_at_memory(self) -> None:
        self._memory = memory()
        self._look()

    # What the person does

    @on(Composer.Sent)
    def _sent(self, message: Composer.Sent) -> None:
        composer = self.query_one(Composer)
        self.desk.begin()  # what was typed ahead may be sent before the screen stands
        text = with_files(message.text, ((each.name, each.text) for each in message.attachments))
        try:
            if message.editing is None:
                self.desk.send(text)
            else:
                self.desk.edit(message.editing, text)
        except EdgeLLMError as error:
            self.say(str(error), "error")
            composer.give_back(message)
        self.attempt(lambda: self.desk.save_draft(composer.unsent))

    @on(Composer.Attached)
    def _attached(self) -> None:
        self._weigh(each for each in self.query_one(Composer).weights if each.tokens is None)
        self._judge()

    def _weigh(self, attachments: Iterable[Attachment]) -> None:
        for each in attachments:
            self.desk.weigh(each.name, each.text)

    def _judge(self) -> str:
        """What is wrong with the length of all that is attached."""
        composer = self.query_one(Composer)
        problem = self.desk.too_long(sum(each.tokens or 0 for each in composer.weights))
        composer.warn(bool(problem))
        return problem and f"{', '.join(each.name or 'pasted text' for each in composer.weights)}: {problem}"

    @on(Composer.Command)
    def _command(self, message: Composer.Command) -> None:
        composer = self.query_one(Composer)
        if not self.command(message.line) and message.line[1:] not in COMMANDS and not composer.text:
            composer.text = message.line  # to be mended

    @on(Composer.Changed)
    def _changed(self, message: Composer.Changed) -> None:
        problem = ""
        try:
            self.desk.save_draft(message.text)
        except EdgeLLMError as error:
            problem = str(error)
        if problem not in ("", self._unsaved):  # said once, not for each key
            self.say(problem, "error")
        self._unsaved = problem

    @on(Sidebar.Search)
    def _search(self, message: Sidebar.Search) -> None:
        self._searched = message.words
        self._show_chats()

    @on(Sidebar.Open)
    def _open(self, message: Sidebar.Open) -> None:
        self.move(lambda: self.desk.open_chat(message.chat))
        self.query_one(Composer).focus()

    @on(Sidebar.Rename)
    def _rename(self, message: Sidebar.Rename) -> None:
        self.attempt(lambda: self.desk.rename_chat(message.chat, message.title))

    @on(Sidebar.Delete)
    def _delete(self, message: Sidebar.Delete) -> None:
        def delete() -> None:
            self.desk.delete_chat(message.chat)
            self._deleted.append(message.chat)
            self.say("deleted; Ctrl+Z brings it back")

        self.move(delete)

    @on(Sidebar.Undo)
    def _undo(self) -> None:
        if self._deleted:
            self.attempt(lambda: self.desk.undelete_chat(self._deleted.pop()))

    @on(Sidebar.Leave)
    def _leave_chats(self) -> None:
        self.query_one(Sidebar).display = False
        self.query_one(Composer).focus()

    def action_chats(self) -> None:
        """Show the list of chats and look for one, or hide it."""
        if self.query_one(Sidebar).display:
            self._leave_chats()
        else:
            self.show_sidebar()

    def show_sidebar(self) -> None:
        """Show the list of chats and look for one."""
        sidebar = self.query_one(Sidebar)
        sidebar.display = True
        if self.size.width < _ROOM_FOR_ALL:
            self.query_one(Panel).remove_class("shown")
        self._show_chats()
        sidebar.search()

    def action_show(self, view: str) -> None:
        """Open a view."""
        self.show(view)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Escape stops what runs, or else leads back to the input box, where Ctrl+D leaves as in a shell."""
        runs = self.desk.running is not None
        browsing = self._browsing
        return {"stop": runs, "back": browsing and not runs, "leave": not browsing}.get(action, True)

    @property
    def _browsing(self) -> bool:
        """Whether the person is in the conversation, and not in the input box."""
        transcript = self.query_one(Transcript)
        return transcript.has_focus or transcript.selected is not None

    def on_key(self, event: events.Key) -> None:
        """What is typed over the conversation goes into the box."""
        if event.is_printable and self.query_one(Transcript).has_focus and event.key not in self.active_bindings:
            event.stop()
            self.action_back()
            self.query_one(Composer).insert(event.character or "")

    def action_stop(self) -> None:
        """Stop the reply."""
        self.desk.stop()

    def action_back(self) -> None:
        """Back to the input box; no message is marked."""
        self.query_one(Transcript).selected = None
        self.query_one(Composer).focus()

    def action_leave(self) -> None:
        """End the program."""
        self.leave()

    def action_clear(self) -> None:
        """Begin a new chat."""
        self.move(self.desk.new_chat)
        self.query_one(Composer).focus()

    def action_regenerate(self) -> None:
        """Reply once more."""
        self.attempt(self.desk.regenerate)

    def action_edit(self) -> None:
        """Edit the selected message, if it is the person's, or their last one."""
        selected = self.desk.chat.tree.messages.get(self.query_one(Transcript).selected or 0)
        if selected and selected.role == "user":
            self.edit(selected.id)
        else:
            self.command("/edit")

    def action_walk(self, step: int) -> None:
        """Show another version of the selected message, or of the last one that has several."""
        self.attempt(lambda: self.desk.walk(self.query_one(Transcript).selected or None, step))

    def action_mark(self, which: str) -> None:
        """Mark the `previous` or the `next` message, wherever the cursor is; its keys are then below."""
        self.query_one(Transcript).focus(scroll_visible=False)
        self.action_look(f"select_{which}")

    @on(Transcript.Selected)
    def _marked(self, message: Transcript.Selected) -> None:
        self.refresh_bindings()
        if message.key is None and self.query_one(Transcript).has_focus:
            self.query_one(Composer).focus()

    def action_look(self, action: str) -> None:
        """Do something in the conversation, wherever the cursor is."""
        self.call_later(self.query_one(Transcript).run_action, action)

    @on(Transcript.Following)
    def _following(self, message: Transcript.Following) -> None:
        """Where more is below than can be seen, say how to get there."""
        self.query_one(Composer).hint = "" if message.following else f"↓ more: {key_of(self, 'chat.end')}"

    def action_panel(self) -> None:
        """Show or hide the figures."""
        shown = self.query_one(Panel).toggle_class("shown").has_class("shown")
        if shown and self.size.width < _ROOM_FOR_ALL:
            self.query_one(Sidebar).display = False
            self.query_one(Composer).focus()
