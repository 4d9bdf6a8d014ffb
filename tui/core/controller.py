"""The one object that a frontend calls: conversations, the model, settings. What changes it tells as events."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edgellm.errors import EdgeLLMError
from tui.core.backend import Backend
from tui.core.chats import Chats
from tui.core.display_names import display_name
from tui.core.events import (
    ConversationCounted,
    Event,
    ModelFailed,
    ModelOpened,
    Notice,
    ReplyEnded,
    SettingsChanged,
)
from tui.core.model_names import ModelNames
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.setting_values import words
from tui.core.settings import Setting, setting
from tui.core.store import Store


class ChatController(Chats):
    """Everything but the screen. Call it from one thread; `tell` gets events from there and from the worker's.

    Events of the worker come back through `heard`, in the thread of the frontend: it changes what is shown. Methods raise
    EdgeLLMError, in one line, for what cannot be done.
    """

    def __init__(
        self, store: Store, backend: Backend, tell: Callable[[Event], None], given: RunOptions = NO_RUN_OPTIONS
    ) -> None:
        super().__init__(store, backend, tell, given)
        self.first: str | None = None
        self.refused: str | None = None  # why no model is open, if one was wanted last that could not be opened
        self.known = ModelNames(backend.names)
        self._last: ModelOpened | None = None
        self._loaded = self.tuning.state()

    # Models and settings

    def begin(self) -> None:
        """Open the model of the beginning, unless one was asked for already, and say what is to be said first."""
        if self.place is None and self.first:
            self.open_model(self.first)
            if message := self.given.message:
                self._keep(lambda: self.send(message))

    def go_on_with(self, chat: int) -> None:
        """Open the chat of the beginning, with the system prompt that was given for this run."""
        self.open_chat(chat)
        if self.given.system is not None:
            self.chat = replace(self.chat, system=self.given.system or None)

    def open_model(self, name: str) -> None:
        """Open a model in place of the one that is open; the conversation goes on with it, and what waits is for it."""
        asked = _from_anywhere(name)
        self._keep(lambda: self.tuning.recall(asked))
        self.model = self.place = asked
        self.opened = self.refused = None
        self.worker.open(asked, lambda found, path: self._loading(asked, found, path))
        self._tell(SettingsChanged())

    def _loading(self, asked: str, name: str, path: str) -> dict[str, Any]:
        """What is set for loading a model."""
        found: dict[str, Any] = {}
        self._keep(lambda: found.update(self.tuning.loading(asked, name, path)))
        return found

    def set(self, name: str, text: str) -> None:
        """Set something for this model, and keep it; empty text goes back to the default."""
        if self.keep(name, text).loads:
            self.reopen()

    def value(self, name: str) -> str:
        """What a setting of this model is, in words. Raises OptionError for one that there is not."""
        asked = setting(name)
        if asked.name in self.tuning.values:
            return words(self.tuning.values[asked.name])
        brought = self.opened.defaults.get(asked.name) if self.opened else None
        default = asked.default if brought is None else brought
        return "automatic" if default is None else f"{words(default) or 'none'} (default)"

    def keep(self, name: str, text: str) -> Setting:
        """Set something as `set` does, but settings of loading wait for `reopen`."""
        setting = self.tuning.set(name, text)
        self._tell(SettingsChanged())
        return setting

    def reset(self) -> None:
        """All settings of this model as they come."""
        loads = self.tuning.for_loading()
        self.tuning.reset()
        self._tell(SettingsChanged())
        if loads:
            self.reopen()

    def walk(self, message: int | None, step: int) -> None:
        """Show an earlier or later version of a message, or of the last one that has several."""
        super().walk(message, step)
        self.recount()

    def think(self, thinking: bool | None) -> None:
        """Let the model think before it replies, or not, or (None) as its template does.

        Raises EdgeLLMError if it cannot be switched.
        """
        if not self.opened or not self.opened.thinking:
            raise EdgeLLMError("this model's template has no switch for thinking")
        self.tuning.think(thinking)
        self._tell(SettingsChanged())

    def switch_thinking(self) -> bool:
        """Let the model think before it replies, or not; which it is now. EdgeLLMError if it cannot be switched."""
        self.think(self.tuning.thinking is False)
        return bool(self.tuning.thinking)

    def set_system(self, text: str) -> None:
        """The system prompt of this chat; empty text: none."""
        if self.chat.id:
            self.store.set_system(self.chat.id, text or None)
        self.chat = replace(self.chat, system=text or None)
        self._count_anew()
        self._tell(SettingsChanged())

    def reopen(self) -> None:
        """Open the model anew, with what is set now."""
        if self.place:
            self.open_model(self.place)

    def heard(self, event: Event) -> None:
        """Take note of what the worker told. The frontend passes each event on, in its own thread."""
        if isinstance(event, ReplyEnded):
            self._note_end(event)
            self.note_figures(event)
        elif isinstance(event, ConversationCounted):
            self.note_count(event)
        elif isinstance(event, ModelOpened) and event.asked == self.place:  # and no other is wanted by now
            self._note_model(event)
        elif isinstance(event, ModelFailed):
            self._note_failure(event)

    def _note_failure(self, event: ModelFailed) -> None:
        """Go on with the model before, as it was opened, if it is still open and no other is wanted by now."""
        stays = ""
        if event.kept and event.name == self.place and (before := self._last):
            self.opened, self.model, self.place = before, before.name, before.path
            self._keep(lambda: self.tuning.recall(before.path))
            self._keep(lambda: self.tuning.go_back(self._loaded))
            self._tell(SettingsChanged())
            stays = f"; {display_name(before.name)} stays open{', and what is set here is for that' if event.to_set else ''}"
        if not event.kept and event.name == self.place:
            self.refused = event.problem
        self._tell(Notice(event.problem + stays, "error"))

    def _note_model(self, event: ModelOpened) -> None:
        """However a model was asked for, what is set for it is kept under its path."""
        self.opened, self.model, self.place = event, event.name, event.path
        self._last = event
        self._keep(lambda: self.tuning.found(event.asked, event.name, event.path))
        self._loaded = self.tuning.state()
        self.prefer("model", event.path)
        self.recount()
        self._keep(self._note_own_model)

    def open_chat(self, chat: int, at: int | None = None) -> None:
        """As `Chats.open_chat`, and with the chat's own model; that of the beginning is opened by `begin`."""
        super().open_chat(chat, at)
        own = self.chat.path or self.chat.model
        if own and self.place and own not in (self.place, self.model) and (self.chat.path or _is_name(own)):
            self.open_model(own)

    def close(self) -> None:
        """End the model and the store; a reply that is being written is kept as far as it has come."""
        self.stop()
        self.worker.close()
        self.drafts.close()
        self.store.close()


def _from_anywhere(name: str) -> str:
    """What was asked for as a model, by its whole path if it is a path: it then means the same from every folder."""
    if name.startswith((".", "~")) or name.lower().endswith(".gguf"):
        return os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111 (those may raise)
    return name


def _is_name(model: str) -> bool:
    """Whether this is a name of a model, as chats of earlier versions have it; no file that another's chat names."""
    return _from_anywhere(model) == model and not model.startswith(("/", "\\"))
