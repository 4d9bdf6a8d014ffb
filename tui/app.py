"""The Textual application of the chat."""

import os
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.command import Provider
from textual.message import Message
from textual.notifications import SeverityLevel

from edgellm.errors import EdgeLLMError
from edgellm.system.folders import config_file
from edgellm.terminal.sanitize import sanitize
from tui.binding import bind
from tui.chat.screen import ChatScreen
from tui.clipboard import copy
from tui.core.backend import Backend
from tui.core.controller import ChatController
from tui.core.events import Event
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.store import Store
from tui.notices import Notices
from tui.resilient_app import ResilientApp
from tui.views.keymap import read_keys, remarks
from tui.views.themes import DARK, LIGHT, first_theme
from tui.views.view import View


def _palette() -> type[Provider]:
    from tui.views.palette import PaletteCommands  # on first use

    return PaletteCommands


class ChatApp(ResilientApp):
    """Shows one chat controller. `chat` is the stored chat to open first, None for a new one."""

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
            "All commands and keys, found by typing",
            priority=True,
        ),
    ]

    class ControllerEvent(Message):
        """Brings an event of the controller or its worker into the app's thread."""

        def __init__(self, event: Event) -> None:
            super().__init__()
            self.event = event

    def __init__(
        self,
        store: Store,
        backend: Backend,
        model: str,
        chat: int | None = None,
        run_options: RunOptions = NO_RUN_OPTIONS,
    ) -> None:
        super().__init__()
        self.controller = ChatController(store, backend, self._emit, run_options, first_model=model)
        self._chat = chat
        self._notices = Notices(self)
        self.keys, self._key_errors = read_keys(config_file())
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = first_theme(store.preferences.get("theme", None), self.available_themes, os.environ)

    def _emit(self, event: Event) -> None:
        self.post_message(self.ControllerEvent(event))  # from any thread

    @property
    def chat_screen(self) -> ChatScreen | None:
        """The screen of the conversation, also while another screen is over it."""
        return next((screen for screen in self.screen_stack if isinstance(screen, ChatScreen)), None)

    async def on_event(self, event: events.Event) -> None:
        """Remove the letter from keys with Alt: older terminals and tmux send it after an Escape, and it is no text."""
        if isinstance(event, events.Key) and event.key.startswith("alt+"):
            event.character = None
        await super().on_event(event)

    def on_load(self) -> None:
        """Prepare the notices. Textual calls the `on_load` of the base class, too."""
        self._notices.watch_screens()

    def on_mount(self) -> None:
        """Show the screen, and then begin to open the model."""
        self.set_keymap(self.keys)
        if self._chat is not None:
            self._resume(self._chat)
        self.push_screen(ChatScreen(self.controller))
        self.call_after_refresh(self.controller.start)
        self.call_after_refresh(self._notify_key_errors)

    def _resume(self, chat: int) -> None:
        try:
            self.controller.resume(chat)
        except EdgeLLMError as error:
            self.notify(str(error), severity="error")

    def _notify_key_errors(self) -> None:
        """Show what is wrong with the keys of the config file. This imports all screens, and so comes last."""
        for problem in [*self._key_errors, *(remarks(self.keys) if self.keys else ())]:
            self.notify(problem, severity="warning", timeout=15)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a notice; one that is shown already begins anew. Markup and control characters in it have no effect."""
        text, notify = sanitize(message), super().notify
        self._notices.show(text, lambda: notify(text, title=title, severity=severity, timeout=timeout, markup=False))

    def action_help_quit(self) -> None:
        """Ctrl+C: stop the reply, or else clear the input box, as in a shell, or else name the key that leaves."""
        chat = self.screen
        if self.controller.replies.running is not None:
            self.controller.replies.stop()
        elif isinstance(chat, ChatScreen) and chat.parts.drafts.clear():
            self.notify("Up brings back what was typed; Ctrl+Q leaves the chat")
        else:
            self.notify("Ctrl+Q leaves the chat; everything is saved")

    async def action_quit(self) -> None:
        """Leave; the draft is saved."""
        if chat := self.chat_screen:
            chat.parts.frontend.leave()

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text that was marked with the mouse, or in an input."""
        copy(self, text, "")

    def save(self) -> None:
        """Save the draft."""
        if chat := self.chat_screen:
            chat.parts.drafts.save()

    def on_chat_app_controller_event(self, message: ControllerEvent) -> None:
        """Pass an event to the controller, and then to the screens that are mounted."""
        self.controller.on_event(message.event)
        for screen in self.screen_stack if self.is_running else ():
            if isinstance(screen, ChatScreen) and screen.is_mounted:
                screen.parts.events.show(message.event)
            elif isinstance(screen, View):
                screen.show_later(message.event)

    def watch_theme(self, theme: str) -> None:
        """Store a theme that the user chose."""
        if self.is_running:
            self.controller.prefer("theme", theme)
