"""The Textual chat: the application, around one screen for the conversation."""

import os
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.command import Provider
from textual.message import Message

from edgellm.errors import EdgeLLMError
from edgellm.system.folders import config_file
from tui.binding import bind
from tui.chat.screen import ChatScreen
from tui.clipboard import copy
from tui.core.backend import Backend
from tui.core.controller import ChatController
from tui.core.events import Event
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.store import Store
from tui.notices import NoticingApp
from tui.views.keymap import read_keys, remarks
from tui.views.themes import DARK, LIGHT, first_theme
from tui.views.view import View


def _palette() -> type[Provider]:
    from tui.views.palette import PaletteCommands  # on first use

    return PaletteCommands


class ChatApp(NoticingApp):
    """Made with what it works on, so that tests can give it a store and a model of their own."""

    TITLE = "edgellm"
    CSS_PATH = Path(__file__).with_suffix(".tcss")
    COMMANDS: ClassVar = {_palette}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("app.quit", "ctrl+q", "quit", "Quit", "Leave; everything is saved"),
        bind(
            "app.palette",
            "ctrl+p",
            "command_palette",
            "Palette",
            "Everything one can do, found by typing",
            priority=True,
        ),
    ]

    class Heard(Message):
        """The desk or its worker told something."""

        def __init__(self, event: Event) -> None:
            super().__init__()
            self.event = event

    def __init__(
        self, store: Store, backend: Backend, model: str, chat: int | None = None, given: RunOptions = NO_RUN_OPTIONS
    ) -> None:
        super().__init__()
        self.desk = ChatController(store, backend, self._tell, given)
        self.desk.first, self._chat = model, chat
        self.keys, self._problems = read_keys(config_file())
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = first_theme(store.preference("theme", None), self.available_themes, os.environ)

    def _tell(self, event: Event) -> None:
        self.post_message(self.Heard(event))  # from any thread

    async def on_event(self, event: events.Event) -> None:
        """Take the letter off keys with Alt: behind an Escape, as older terminals and tmux send it, it is not typed."""
        if isinstance(event, events.Key) and event.key.startswith("alt+"):
            event.character = None
        await super().on_event(event)

    def on_mount(self) -> None:
        """Show the screen; only then begin to open the model."""
        self.set_keymap(self.keys)
        if self._chat is not None:
            self._open_chat(self._chat)
        self.push_screen(ChatScreen(self.desk))
        self.call_after_refresh(self.desk.begin)
        self.call_after_refresh(self._tell_of_keys)

    def _open_chat(self, chat: int) -> None:
        try:
            self.desk.go_on_with(chat)
        except EdgeLLMError as error:
            self.notify(str(error), severity="error")

    def _tell_of_keys(self) -> None:
        """Say what is wrong in the config file. To know all keys, all screens are loaded: only once this one stands."""
        for problem in [*self._problems, *(remarks(self.keys) if self.keys else ())]:
            self.notify(problem, severity="warning", timeout=15)

    def action_help_quit(self) -> None:
        """Ctrl+C: stop what is written, or drop what is typed, as in a shell; else say how to leave."""
        if self.desk.running is not None:
            self.desk.stop()
        elif isinstance(self.screen, ChatScreen) and self.screen.put_away():
            self.notify("Up brings back what was typed; Ctrl+Q leaves the chat")
        else:
            self.notify("Ctrl+Q leaves the chat; everything is saved")

    async def action_quit(self) -> None:
        """Leave, with what is typed kept."""
        for screen in self.screen_stack:
            if isinstance(screen, ChatScreen):
                screen.leave()

    def copy_to_clipboard(self, text: str) -> None:
        """Copy what was marked with the mouse, or in an input."""
        copy(self, text, "")

    def keep(self) -> None:
        """Keep what is typed."""
        for screen in self.screen_stack:
            if isinstance(screen, ChatScreen):
                screen.keep()

    def on_chat_app_heard(self, message: Heard) -> None:
        """Let the desk take note, then show it, unless the screens come or go just now."""
        self.desk.heard(message.event)
        for screen in self.screen_stack if self.is_running else ():
            if isinstance(screen, ChatScreen) and screen.is_mounted:
                screen.heard(message.event)
            elif isinstance(screen, View):
                screen.hear(message.event)

    def watch_theme(self, theme: str) -> None:
        """Keep the theme that was chosen; the first one was not."""
        if self.is_running:
            self.desk.prefer("theme", theme)
