"""The Textual chat: the application, around one screen for the conversation."""

from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.chat.screen import ChatScreen
from tui.core.backend import Backend
from tui.core.desk import Desk
from tui.core.events import Event
from tui.core.store import Store


class ChatApp(App[None]):
    """Made with what it works on, so that tests can give it a store and a model of their own."""

    TITLE = "edgellm"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Quit", id="app.quit"),
        Binding("f1", "show('help')", "Help", id="app.help"),
    ]

    class Heard(Message):
        """The desk or its worker told something."""

        def __init__(self, event: Event) -> None:
            super().__init__()
            self.event = event

    def __init__(self, store: Store, backend: Backend, model: str, chat: int | None = None) -> None:
        super().__init__()
        self.desk = Desk(store, backend, self._tell)
        self._model, self._chat = model, chat

    def _tell(self, event: Event) -> None:
        self.post_message(self.Heard(event))  # from any thread

    def on_mount(self) -> None:
        """Show the screen; only then begin to open the model."""
        self.theme = str(self.desk.store.preference("theme", "textual-dark"))
        if self._chat is not None:
            self.desk.open_chat(self._chat)
        self.push_screen(ChatScreen(self.desk))
        self.call_after_refresh(self.desk.open_model, self._model)

    async def action_quit(self) -> None:
        """Leave, with what is typed kept."""
        for screen in self.screen_stack:
            if isinstance(screen, ChatScreen):
                screen.leave()

    def on_unmount(self) -> None:
        """Stop what is written, and keep it."""
        self.desk.close()

    def on_chat_app_heard(self, message: Heard) -> None:
        """Let the desk take note, then show it."""
        self.desk.heard(message.event)
        for screen in self.screen_stack:
            if isinstance(screen, ChatScreen):
                screen.heard(message.event)

    def watch_theme(self, theme: str) -> None:
        """Keep the theme that was chosen."""
        if self.is_running:
            self.desk.store.set_preference("theme", theme)
