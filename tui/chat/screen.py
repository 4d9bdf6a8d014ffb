"""The screen of the conversation: lays out its widgets, and passes their messages and the keys to its parts."""

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.screen import Screen
from textual.widget import Widget

from tui.chat.bindings import BINDINGS
from tui.chat.key_bar import KeyBar
from tui.chat.parts import ChatParts, ChatWidgets
from tui.chat.refresh_rate import SHORTEST_S
from tui.chat.resizing import ResizeNotifier
from tui.commands import COMMANDS
from tui.commands.completion import complete
from tui.composer import Composer
from tui.composer.message_sent import MessageSent
from tui.core.controller import ChatController
from tui.core.tool_question import Answer
from tui.sidebar import Sidebar
from tui.transcript import Transcript

_MEMORY_INTERVAL_S = 2.0
_FITTED = "Transcript, Welcome, Editor, StatusLine, Panel, Sidebar OptionList"
"""The widgets whose content depends on their size."""


class ChatScreen(Screen[None]):
    """The conversation, the input box, the list of chats and the instruments. `parts` has all of its behaviour."""

    CSS_PATH = "screen.tcss"
    AUTO_FOCUS = "Editor"
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-high")]  # noqa: RUF012 (an instance variable of its base)
    BINDINGS: ClassVar[list[BindingType]] = BINDINGS

    def __init__(self, controller: ChatController) -> None:
        super().__init__()
        self._controller = controller
        self._widgets = ChatWidgets(controller)
        self.parts = ChatParts(self, controller, self._widgets)

    def compose(self) -> ComposeResult:
        """The widgets of the screen."""
        widgets = self._widgets
        with Horizontal(id="middle"):
            yield widgets.sidebar
            with Vertical(id="conversation"):
                with Container(id="talk"):
                    yield widgets.transcript
                    yield widgets.welcome
                yield widgets.question
                yield widgets.composer
                yield widgets.status_line
            yield widgets.panel
        yield KeyBar()

    def on_mount(self) -> None:
        """Fill the widgets, and start to refresh them."""
        composer, names = self._widgets.composer, self._controller.model_names
        sizes = ResizeNotifier(list(self.query(Widget).filter(_FITTED)))
        self.screen_layout_refresh_signal.subscribe(self, sizes.on_layout)
        self.parts.notifier.attempt(lambda: composer.form.set_history(self._controller.store.preferences.history()))
        composer.set_completer(lambda line, cursor: complete(line, cursor, names.names))
        self.parts.drafts.load()
        view = self.parts.view
        view.start(self.set_interval(SHORTEST_S, view.refresh_if_due))
        self.set_interval(_MEMORY_INTERVAL_S, view.refresh_memory)
        view.show()

    # Messages of the widgets

    @on(MessageSent)
    def _sent(self, message: MessageSent) -> None:
        self._widgets.transcript.selected = None
        self._controller.start()  # text typed early may be sent before the model was requested
        self.parts.queue.add(message)

    @on(Composer.CommandSent)
    def _command(self, message: Composer.CommandSent) -> None:
        composer = self._widgets.composer
        if not self.parts.frontend.run(message.line) and message.line[1:] not in COMMANDS and not composer.text:
            composer.put_selected(message.line)  # to be corrected

    @on(Composer.DraftChanged)
    def _changed(self, message: Composer.DraftChanged) -> None:
        self.parts.drafts.save_change(message.text, message.files)

    @on(Composer.Attached)
    def _attached(self) -> None:
        self.parts.attachments.count_new()

    @on(Transcript.Walk)
    def _walk(self, message: Transcript.Walk) -> None:
        self.parts.browser.walk(message.step, message.key)

    @on(Transcript.Selected)
    def _marked(self, message: Transcript.Selected) -> None:
        self.parts.browser.on_marked(message.key)

    @on(Transcript.Following)
    def _following(self, message: Transcript.Following) -> None:
        self.parts.browser.on_following(message.following)

    @on(Sidebar.Search)
    def _search(self, message: Sidebar.Search) -> None:
        self.parts.sidebar.search(message.words)

    @on(Sidebar.Open)
    def _open(self, message: Sidebar.Open) -> None:
        self.parts.sidebar.open(message.chat, message.hit)

    @on(Sidebar.Rename)
    def _rename(self, message: Sidebar.Rename) -> None:
        self.parts.sidebar.rename(message.chat, message.title)

    @on(Sidebar.Delete)
    def _delete(self, message: Sidebar.Delete) -> None:
        self.parts.sidebar.delete(message.chat)

    @on(Sidebar.Undo)
    def _undo(self) -> None:
        self.parts.sidebar.undelete()

    @on(Sidebar.Leave)
    def _leave_sidebar(self) -> None:
        self.parts.sidebar.hide()

    def on_key(self, event: events.Key) -> None:
        """Put text that is typed over the transcript into the input box."""
        self.parts.browser.type_into_box(event)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor into the input box after a click on the transcript."""
        if isinstance(event.widget, Transcript):
            self.parts.browser.back()

    # Keys, as `bindings` declares them

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Whether a key does something now.

        Escape refuses the call that asks, stops the reply or the call that runs, or else leads back to the input box.
        """
        calls, is_browsing = self._controller.calls, self.parts.browser.is_active
        is_busy = self._controller.replies.running is not None or calls.is_active
        match action:
            case "answer":
                return calls.question is not None
            case "stop":
                return is_busy and calls.question is None
            case "back":
                return is_browsing and not is_busy
            case "leave":
                return not is_browsing  # in the input box, Ctrl+D leaves as in a shell
            case "regenerate":
                return self._controller.conversation.leaf is not None
        return True

    def action_answer(self, answer: str) -> None:
        """Answer the question about a call: `once`, `always` or `refuse`."""
        self._widgets.question.answer(Answer(answer))

    def action_stop(self) -> None:
        """Stop the reply and the call that runs; the messages that wait for its end come back into the input box."""
        self._controller.replies.stop()
        self._widgets.composer.queue.take_back()

    def action_regenerate(self) -> None:
        """Request another version of the last reply."""
        self.parts.notifier.attempt(self._controller.sender.regenerate)

    def action_clear(self) -> None:
        """Open a new chat."""
        self.parts.drafts.switch(self._controller.chats.new)
        self._widgets.composer.focus()

    def action_back(self) -> None:
        """Go back to the input box."""
        self.parts.browser.back()

    def action_edit(self) -> None:
        """Edit the marked message."""
        self.parts.browser.edit()

    def action_continue_reply(self) -> None:
        """Continue the marked reply."""
        self.parts.browser.continue_reply()

    def action_walk(self, step: int) -> None:
        """Show another version of the marked message."""
        self.parts.browser.walk(step)

    def action_mark(self, which: str) -> None:
        """Mark the `previous` or the `next` message."""
        self.parts.browser.mark(which)

    def action_browse(self, action: str) -> None:
        """Run an action of the transcript. A question about a call that is longer than its place is scrolled first."""
        if action not in ("page_up", "page_down") or not self._widgets.question.scroll_by_page(action):
            self.parts.browser.run(action)

    def action_chats(self) -> None:
        """Show or hide the list of chats."""
        self.parts.sidebar.toggle()

    def action_panel(self) -> None:
        """Show or hide the panel of figures."""
        self.parts.sidebar.toggle_panel()

    def action_show(self, view: str) -> None:
        """Open a view."""
        self.parts.frontend.show(view)

    def action_start_command(self, line: str) -> None:
        """Begin a command in the input box."""
        self.parts.frontend.start_command(line)

    def action_leave(self) -> None:
        """End the program."""
        self.parts.frontend.leave()
